// Receipts vouch for files that did not change since they were hashed, and for nothing else.
#include "gpu/weights_files/receipts.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "engram/sha256.hpp"
#include "gpu/weights_files/file_hash.hpp"
#include "gpu/weights_files/model_files.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(receipts)

namespace {

const std::string some_hash(64, 'a');

FileReceipt receipt_of(const fs::path& file) {
  const auto hashed = hash_file(file);
  BOOST_REQUIRE_MESSAGE(hashed, hashed.error().message());
  return *hashed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_what_is_read) {
  const FileReceipts written{{"a \"b\"", {{1, 2, 3}, some_hash}}, {"c/d", {{0, 0, 0}, some_hash}}};
  const auto read = parse_receipts(to_json(written), "r");
  BOOST_REQUIRE_MESSAGE(read, read.error().message());
  BOOST_CHECK(*read == written);
}

BOOST_AUTO_TEST_CASE(a_damaged_book_is_refused_with_the_entry_that_is_wrong) {
  for (const char* text :
       {"", "[]", "{}", R"({"format": 2, "files": {}})", R"({"format": 1, "files": []})",
        R"({"format": 1, "files": {"a": 7}})", R"({"format": 1, "files": {"a": {"bytes": 1}}})",
        R"({"format": 1, "files": {"a": {"bytes": -1, "modified_ns": 0, "inode": 0, "sha256": ""}}})"}) {
    BOOST_TEST((parse_receipts(text, "r").error().code == ErrorCode::bad_format), text);
  }
}

BOOST_AUTO_TEST_CASE(a_saved_receipt_is_found_again_until_the_file_changes) {
  test::CheckpointFolder folder;
  const fs::path file = folder.path() / "a.bin";
  test::write_file(file, "one");
  ReceiptBook book = ReceiptBook::open(folder.path(), {});
  BOOST_TEST(!book.has("a.bin"));
  book.note("a.bin", receipt_of(file));
  BOOST_REQUIRE(book.save().has_value());

  const ReceiptBook again = ReceiptBook::open(folder.path(), {});
  BOOST_TEST(again.hash_of("a.bin", *file_state(file)).value_or("") ==
             engram::sha256_hex(std::as_bytes(std::span("one", 3))));
  const auto before = fs::last_write_time(file);
  test::write_file(file, "two");
  fs::last_write_time(file, before + std::chrono::seconds(1));
  BOOST_TEST(!again.hash_of("a.bin", *file_state(file)).has_value());
  BOOST_TEST(again.has("a.bin"));
}

BOOST_AUTO_TEST_CASE(a_copy_with_the_same_size_and_time_is_not_vouched_for) {
  test::CheckpointFolder folder;
  const fs::path file = folder.path() / "a.bin", other = folder.path() / "b.bin";
  test::write_file(file, "one");
  test::write_file(other, "One");
  fs::last_write_time(other, fs::last_write_time(file));
  ReceiptBook book = ReceiptBook::open(folder.path(), {});
  book.note("a.bin", receipt_of(file));
  fs::rename(other, file);
  BOOST_TEST(!book.hash_of("a.bin", *file_state(file)).has_value());
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_has_its_book_in_the_state_folder) {
  test::CheckpointFolder folder, state;
  const fs::path model = folder.path() / "model";
  fs::create_directory(model);
  test::write_file(model / "a.bin", "one");
  // Even root cannot replace a folder by a file: the place beside the weights is taken.
  fs::create_directories(model / receipt_file_name / "in the way");
  ReceiptBook book = ReceiptBook::open(model, state.path());
  book.note("a.bin", receipt_of(model / "a.bin"));
  BOOST_REQUIRE(book.save().has_value());
  BOOST_TEST(ReceiptBook::open(model, state.path()).hash_of("a.bin", *file_state(model / "a.bin")).has_value());
  BOOST_TEST(!ReceiptBook::open(folder.path(), state.path()).has("a.bin"));
  ReceiptBook without = ReceiptBook::open(model, {});
  without.note("a.bin", receipt_of(model / "a.bin"));
  BOOST_TEST(!without.save().has_value());
}

BOOST_AUTO_TEST_CASE(what_a_killed_writer_left_goes_with_the_next_book_and_a_living_ones_stays) {
  test::CheckpointFolder folder;
  const auto left = [&](const std::string& name) {
    const fs::path file = folder.path() / (receipt_file_name + name);
    test::write_file(file, "half a bo");
    return file;
  };
  const fs::path old = left(".a1B2c3"), fresh = left(".d4E5f6"), other = left(".backup-of-mine");
  for (const fs::path& file : {old, other})
    fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(2));
  ReceiptBook book = ReceiptBook::open(folder.path(), {});
  book.note("a", {{1, 1, 1}, some_hash});
  BOOST_REQUIRE(book.save().has_value());
  BOOST_TEST(!fs::exists(old));
  BOOST_TEST(fs::exists(fresh));
  BOOST_TEST(fs::exists(other));
}

BOOST_AUTO_TEST_CASE(two_books_of_one_folder_keep_what_the_other_wrote) {
  test::CheckpointFolder folder;
  ReceiptBook first = ReceiptBook::open(folder.path(), {}), second = ReceiptBook::open(folder.path(), {});
  first.note("a", {{1, 1, 1}, some_hash});
  second.note("b", {{1, 1, 1}, some_hash});
  BOOST_REQUIRE(first.save().has_value());
  BOOST_REQUIRE(second.save().has_value());
  const ReceiptBook both = ReceiptBook::open(folder.path(), {});
  BOOST_TEST(both.has("a"));
  BOOST_TEST(both.has("b"));
}

BOOST_AUTO_TEST_CASE(files_are_hashed_as_one_message_whatever_their_size) {
  test::CheckpointFolder folder;
  std::vector<fs::path> files;
  std::vector<std::string> contents{"", "a", std::string((4 << 20) - 1, 'b'), std::string(4 << 20, 'c'),
                                    std::string((4 << 20) + 1, 'd')};
  for (const std::string& content : contents) {
    files.push_back(folder.path() / std::to_string(files.size()));
    test::write_file(files.back(), content);
  }
  files.push_back(folder.path() / "absent");
  std::vector<std::size_t> told;
  HashOptions options;
  options.threads = 3;
  options.on_file = [&](std::size_t file, const FileReceipt&) { told.push_back(file); };
  const auto results = hash_files(files, options);
  BOOST_REQUIRE(results.size() == files.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    BOOST_REQUIRE(results[i].has_value());
    BOOST_TEST(results[i]->sha256 == engram::sha256_hex(std::as_bytes(std::span(contents[i]))));
  }
  BOOST_TEST((results.back().error().code == ErrorCode::not_found));
  std::sort(told.begin(), told.end());
  BOOST_TEST(told == (std::vector<std::size_t>{0, 1, 2, 3, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(hashing_stops_when_it_is_told_to) {
  test::CheckpointFolder folder;
  test::write_file(folder.path() / "a", std::string(64, 'a'));
  const auto stopped = hash_file(folder.path() / "a", [](std::uint64_t) { return false; });
  BOOST_TEST((stopped.error().code == ErrorCode::cancelled));
}

BOOST_AUTO_TEST_CASE(tools_files_and_packed_tables_are_no_part_of_a_model) {
  test::CheckpointFolder folder;
  fs::create_directories(folder.path() / ".cache");
  fs::create_directories(folder.path() / "exl3/qn");
  for (const char* name :
       {"config.json", "exl3/qn/b.safetensors", ".cache/x", ".tandem-receipt.json", "x.part", "x.part.journal",
        "tandem-manifest.json", "tandem-manifest.json.a1B2c3.tandem-new", "engram_token_map.i32.a1B2c3.tandem-new",
        "engram-l1-r0of2.bin", "engram-l1-r0of2.bin.json", "engram_token_map.i32", "engram-notes.txt"}) {
    test::write_file(folder.path() / name, name);
  }
  std::vector<std::string> paths;
  for (const ModelFile& file : *list_model_files(folder.path())) paths.push_back(file.path);
  const std::vector<std::string> expected{"config.json", "engram-notes.txt", "engram_token_map.i32",
                                          "exl3/qn/b.safetensors"};
  BOOST_TEST(paths == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_circle_of_links_is_an_error_and_not_for_ever) {
  test::CheckpointFolder folder;
  fs::create_directory_symlink(folder.path(), folder.path() / "self");
  BOOST_TEST((list_model_files(folder.path()).error().code == ErrorCode::out_of_range));
  BOOST_TEST((list_model_files(folder.path() / "absent").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()
