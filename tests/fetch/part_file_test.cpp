// A file under construction: what a later run may believe of it.
#include "net/fetch/part_file.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "tests/engram/temporary_folder.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_part_file)

struct Construction {
  engram::test::TemporaryFolder folder;
  PartPlan plan{folder.path() / "x", 10, 4, "whose"};

  PartFile open() const {
    auto part = PartFile::open(plan);
    BOOST_REQUIRE_MESSAGE(part, (part ? "" : part.error().message()));
    return std::move(*part);
  }
  // Two of three segments of version "v".
  void begin() const {
    auto part = open();
    BOOST_REQUIRE(part.begin("v"));
    const std::string bytes = "0123456789";
    BOOST_REQUIRE(part.write_at(0, std::as_bytes(std::span(bytes))));
    BOOST_REQUIRE(part.finish_segment(0));
    BOOST_REQUIRE(part.finish_segment(2));
  }
  std::filesystem::path journal() const { return part_path(plan.final_path).string() + ".journal"; }
};

BOOST_FIXTURE_TEST_CASE(segments_cover_the_file_and_the_last_is_shorter, Construction) {
  const auto part = open();
  BOOST_TEST(part.segments() == 3U);
  BOOST_TEST(part.segment(2).begin == 8U);
  BOOST_TEST(part.segment(2).end == 10U);
  BOOST_TEST(part.finished().empty());
}

BOOST_FIXTURE_TEST_CASE(noted_segments_and_their_version_outlive_the_process, Construction) {
  begin();
  const auto part = open();
  BOOST_TEST(part.finished() == (std::set<std::size_t>{0, 2}), boost::test_tools::per_element());
  BOOST_TEST(part.version() == "v");
  BOOST_TEST(part.bytes_finished() == 6U);
}

BOOST_FIXTURE_TEST_CASE(a_line_that_was_cut_counts_for_nothing, Construction) {
  begin();
  std::ofstream(journal(), std::ios::app) << "1";
  BOOST_TEST(open().finished().size() == 2U);
  std::ofstream(journal(), std::ios::app) << "\n7\n1\n";  // no segment 7: nothing behind it is believed
  BOOST_TEST(open().finished().contains(7) == false);
}

BOOST_FIXTURE_TEST_CASE(bytes_of_another_file_are_forgotten, Construction) {
  begin();
  plan.identity = "somebody else's";
  BOOST_TEST(open().finished().empty());
}

BOOST_FIXTURE_TEST_CASE(a_file_keeps_the_segments_that_it_was_begun_with, Construction) {
  begin();
  plan.segment_bytes = 5;
  {
    const auto part = open();
    BOOST_TEST(part.segment_bytes() == 4U);
    BOOST_TEST(part.bytes_finished() == 6U);
  }
  std::filesystem::remove(journal());
  BOOST_TEST(open().segment_bytes() == 5U);
}

BOOST_FIXTURE_TEST_CASE(a_size_of_segments_that_is_none_counts_for_nothing, Construction) {
  for (const char* size : {"0", "-1", "x", "", "99999999999999999999"}) {
    begin();
    std::ofstream(journal()) << "whose\nsegments of " << size << "\nversion v\n0\n";
    BOOST_TEST(open().finished().empty(), size);
  }
}

// Otherwise the journal would become longer than what is read of one.
BOOST_FIXTURE_TEST_CASE(a_huge_file_has_segments_that_can_be_counted, Construction) {
  plan.bytes = (std::uint64_t{1} << 22) + 1;
  plan.segment_bytes = 1;
  const auto part = open();
  BOOST_TEST(part.segment_bytes() == 2U);
  BOOST_TEST(part.segment(part.segments() - 1).end == plan.bytes);
}

BOOST_FIXTURE_TEST_CASE(a_journal_without_its_bytes_counts_for_nothing, Construction) {
  begin();
  std::filesystem::remove(part_path(plan.final_path));
  BOOST_TEST(open().finished().empty());
}

BOOST_FIXTURE_TEST_CASE(starting_over_forgets_bytes_and_journal, Construction) {
  begin();
  {
    auto part = open();
    BOOST_REQUIRE(part.start_over());
    BOOST_TEST(part.finished().empty());
    BOOST_TEST(part.version().empty());
  }
  BOOST_TEST(open().finished().empty());
}

BOOST_FIXTURE_TEST_CASE(two_writers_of_one_file_are_refused, Construction) {
  const auto first = open();
  const auto second = PartFile::open(plan);
  BOOST_REQUIRE(!second);
  BOOST_TEST((second.error().code == ErrorCode::unavailable));
}

BOOST_FIXTURE_TEST_CASE(publishing_leaves_the_file_and_nothing_else, Construction) {
  begin();
  auto part = open();
  BOOST_REQUIRE(part.finish_segment(1));
  BOOST_REQUIRE(part.publish());
  std::ifstream file(plan.final_path, std::ios::binary);
  BOOST_TEST(std::string(std::istreambuf_iterator<char>(file), {}) == "0123456789");
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

BOOST_FIXTURE_TEST_CASE(an_empty_file_has_no_segments_and_can_be_published, Construction) {
  plan.bytes = 0;
  auto part = open();
  BOOST_TEST(part.segments() == 0U);
  BOOST_REQUIRE(part.publish());
  BOOST_TEST(std::filesystem::file_size(plan.final_path) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
