// A file that arrives: who may write when, what a comparison excludes, and what two senders of one file do to each
// other.
#include "net/sync/incoming_file.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>

#include "tests/sync/link_ends.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace tandem::net::sync::test;

BOOST_AUTO_TEST_SUITE(sync_incoming_file)

namespace {

constexpr auto too_long = 20s;  // for something that must not wait

// A comparison that is held in its middle until it is let on.
struct HeldComparison {
  IncomingFile::IsWorking is_working() {
    return [this](std::uint64_t bytes) {
      if (bytes > 0 && !was_reached.exchange(true)) reached.set_value();
      if (bytes > 0) may_go_on.get_future().wait();
      return goes_on;
    };
  }
  std::atomic<bool> was_reached{false};
  std::promise<void> reached, may_go_on;
  bool goes_on = true;
};

struct Arriving {
  explicit Arriving(std::uint64_t chunks) {
    for (std::uint64_t i = 0; i < chunks; ++i) content += std::string(chunk_bytes_min, static_cast<char>('a' + i % 26));
  }
  IncomingIdentity identity(std::uint64_t chunk_bytes = chunk_bytes_min) const {
    return {"sub/a", {content.size(), chunk_bytes}, 1'796'000'000'000'000'000, ""};
  }
  std::shared_ptr<IncomingFile> find(std::uint64_t chunk_bytes = chunk_bytes_min) const {
    return IncomingFile::find(folder.path(), identity(chunk_bytes)).value();
  }
  Result<void> write(IncomingFile& file, std::uint64_t index) const {
    return file.write({index, bytes_of(content).subspan(index * chunk_bytes_min, chunk_bytes_min), 7});
  }
  void write_all(IncomingFile& file) const {
    for (std::uint64_t i = 0; i < file.identity().shape.count(); ++i) BOOST_REQUIRE(write(file, i));
  }
  std::string arrived() const { return content_of(folder.path() / "sub/a"); }
  std::size_t parts() const {
    const auto parts = folder.path() / parts_folder_name;
    if (!std::filesystem::exists(parts)) return 0;
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(parts), {}));
  }

  Folder folder;
  std::string content;
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_written_into_a_file_that_is_being_compared) {
  const Arriving arriving(3);
  const auto file = arriving.find();
  arriving.write_all(*file);
  HeldComparison held;
  auto finished =
      std::async(std::launch::async, [&] { return file->finish(sha_of(arriving.content), held.is_working()); });
  held.reached.get_future().wait();
  const std::string other(chunk_bytes_min, 'X');  // what a second sender holds for the same chunk
  auto written = std::async(std::launch::async, [&] {
    return file->chunks().is_complete() && file->flush().has_value() &&
           file->write({1, bytes_of(other), 0}).has_value();
  });
  const bool is_in_time = written.wait_for(too_long) == std::future_status::ready;
  held.may_go_on.set_value();
  BOOST_TEST(is_in_time, "a comparison holds nobody up");
  BOOST_TEST(written.get(), "a chunk that is there need not be written");
  BOOST_TEST(finished.get()->sha256 == sha_of(arriving.content));
  BOOST_TEST(arriving.arrived() == arriving.content);
  BOOST_TEST((file->write({1, bytes_of(other), 0}).error().code == ErrorCode::unavailable));
  BOOST_TEST(arriving.arrived() == arriving.content);
  BOOST_TEST(arriving.parts() == 0U);
}

BOOST_AUTO_TEST_CASE(who_asks_while_a_file_is_compared_gets_the_same_answer) {
  const Arriving arriving(2);
  const auto file = arriving.find();
  arriving.write_all(*file);
  HeldComparison held;
  const std::string hash = sha_of(arriving.content);
  auto first = std::async(std::launch::async, [&] { return file->finish(hash, held.is_working()); });
  held.reached.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return file->finish(hash, {}); });
  auto impatient = file->finish(hash, [](std::uint64_t) { return false; });
  BOOST_TEST((impatient.error().code == ErrorCode::cancelled), "its connection is gone");
  held.may_go_on.set_value();
  BOOST_TEST(first.get()->sha256 == hash);
  BOOST_TEST(second.get()->sha256 == hash);
  BOOST_TEST((file->finish(sha_of("other"), {}).error().code == ErrorCode::unavailable));
}

BOOST_AUTO_TEST_CASE(a_comparison_that_was_stopped_is_made_again_by_the_next_who_asks) {
  const Arriving arriving(2);
  const auto file = arriving.find();
  arriving.write_all(*file);
  const std::string hash = sha_of(arriving.content);
  BOOST_TEST((file->finish(hash, [](std::uint64_t) { return false; }).error().code == ErrorCode::cancelled));
  BOOST_TEST(!file->is_gone());
  BOOST_TEST(file->finish(hash, {}).has_value());
  BOOST_TEST(file->is_gone());
}

BOOST_AUTO_TEST_CASE(a_file_that_lacks_chunks_is_to_be_offered_again) {
  const Arriving arriving(3);
  const auto file = arriving.find();
  BOOST_REQUIRE(arriving.write(*file, 1));
  const auto early = file->finish(sha_of(arriving.content), {});
  BOOST_TEST((early.error().code == ErrorCode::unavailable));
  BOOST_TEST(early.error().found == "1 of 3 chunks");
}

BOOST_AUTO_TEST_CASE(a_wrong_hash_leaves_nothing_and_the_next_offer_begins_anew) {
  const Arriving arriving(2);
  const auto file = arriving.find();
  arriving.write_all(*file);
  BOOST_TEST((file->finish(sha_of("other"), {}).error().code == ErrorCode::mismatch));
  BOOST_TEST(file->is_gone());
  BOOST_TEST(arriving.parts() == 0U);
  BOOST_TEST((arriving.write(*file, 0).error().code == ErrorCode::unavailable));
  BOOST_TEST(arriving.find()->chunks().count() == 0U);
}

BOOST_AUTO_TEST_CASE(chunks_that_are_there_keep_their_size_whatever_is_offered_later) {
  const Arriving arriving(5);
  {
    const auto file = arriving.find();
    for (const std::uint64_t index : {0, 3}) BOOST_REQUIRE(arriving.write(*file, index));
    BOOST_REQUIRE(file->flush());
  }
  const auto again = arriving.find(2 * chunk_bytes_min);
  BOOST_TEST(again->identity().shape.chunk_bytes == chunk_bytes_min);
  BOOST_TEST(again->chunks().to_text() == "09");
  BOOST_TEST(again->identity().is_same_file(arriving.identity(4 * chunk_bytes_min)));
  arriving.write_all(*again);
  BOOST_TEST(again->finish(sha_of(arriving.content), {}).has_value());
  BOOST_TEST(arriving.arrived() == arriving.content);
}

BOOST_AUTO_TEST_CASE(another_time_or_hash_is_another_file) {
  const Arriving arriving(1);
  const IncomingIdentity one = arriving.identity();
  IncomingIdentity other = one;
  ++other.modified_ns;
  BOOST_TEST(!one.is_same_file(other));
  IncomingIdentity known = one, differs = one;
  known.sha256 = sha_of("a");
  differs.sha256 = sha_of("b");
  BOOST_TEST(one.is_same_file(known), "one sender does not know the hash");
  BOOST_TEST(!known.is_same_file(differs));
}

BOOST_AUTO_TEST_CASE(a_part_that_somebody_else_went_on_with_is_to_be_offered_again) {
  const Arriving arriving(3);
  const auto offered = arriving.find();
  {
    const auto meanwhile = arriving.find();
    BOOST_REQUIRE(arriving.write(*meanwhile, 0));
    BOOST_TEST((arriving.write(*offered, 1).error().code == ErrorCode::unavailable), "somebody else has it open");
    BOOST_REQUIRE(meanwhile->flush());
  }
  BOOST_TEST((arriving.write(*offered, 1).error().code == ErrorCode::unavailable));
  BOOST_TEST(offered->is_gone());
  BOOST_TEST(arriving.find()->chunks().to_text() == "01");
}

BOOST_AUTO_TEST_CASE(a_journal_of_another_file_does_not_outlive_its_bytes) {
  const Arriving arriving(2);
  {
    const auto file = arriving.find();
    BOOST_REQUIRE(arriving.write(*file, 0));
    BOOST_REQUIRE(file->flush());
  }
  IncomingIdentity touched = arriving.identity();
  ++touched.modified_ns;
  {
    const auto other = IncomingFile::find(arriving.folder.path(), touched).value();
    BOOST_REQUIRE(other->write({0, bytes_of(std::string(chunk_bytes_min, 'X')), 0}));
  }
  BOOST_TEST(arriving.find()->chunks().count() == 0U, "its chunk was overwritten");
}

BOOST_AUTO_TEST_CASE(files_that_are_offered_or_reserved_hold_no_descriptors) {
  const Folder folder;
  std::vector<std::shared_ptr<IncomingFile>> files;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    files.push_back(IncomingFile::find(folder.path(), {"f" + std::to_string(i), {10, chunk_bytes_min}, 1, ""}).value());
    BOOST_REQUIRE(files.back()->allocate());
  }
  BOOST_TEST(open_descriptors() == before);
  for (const auto& file : files) BOOST_REQUIRE(file->write({0, bytes_of(std::string("0123456789")), 0}));
  BOOST_TEST(open_descriptors() == before + files.size());
  for (const auto& file : files) BOOST_REQUIRE(file->finish(sha_of("0123456789"), {}));
  BOOST_TEST(open_descriptors() == before);
}

BOOST_AUTO_TEST_CASE(an_empty_file_arrives_without_a_chunk) {
  Arriving arriving(0);
  BOOST_TEST(arriving.find()->finish(sha_of(""), {}).has_value());
  BOOST_TEST(std::filesystem::exists(arriving.folder.path() / "sub/a"));
}

BOOST_AUTO_TEST_SUITE_END()
