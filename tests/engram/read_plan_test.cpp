// Planned reads cover exactly the rows asked for, aligned, merged where it pays, never longer than a slot.
#include "engram/read_plan.hpp"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

using namespace tandem;
using namespace tandem::engram;

namespace {

class PlainFile final : public InputFile {
 public:
  explicit PlainFile(std::size_t alignment) : alignment_(alignment) {}
  const std::string& name() const noexcept override { return name_; }
  std::uint64_t size() const noexcept override { return 0; }
  std::size_t alignment() const noexcept override { return alignment_; }
  int descriptor() const noexcept override { return -1; }
  Result<std::size_t> read_at(std::uint64_t, std::span<std::byte>) const override { return std::size_t{0}; }

 private:
  std::string name_ = "plain";
  std::size_t alignment_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(read_plan)

BOOST_AUTO_TEST_CASE(ids_are_sorted_and_repeated_ones_read_once) {
  const std::vector<RowId> ids{RowId{7}, no_row, RowId{3}, RowId{7}, RowId{3}, RowId{3}};
  const auto distinct = distinct_rows(ids);
  BOOST_TEST(distinct.rows == (std::vector<std::int64_t>{3, 7}), boost::test_tools::per_element());
  BOOST_TEST(distinct.places == (std::vector<std::size_t>{2, 0}), boost::test_tools::per_element());
  BOOST_TEST(distinct.empty == (std::vector<std::size_t>{1}), boost::test_tools::per_element());
  BOOST_TEST(distinct.copies.size() == 3U);
}

BOOST_AUTO_TEST_CASE(neighbours_share_a_read_and_far_rows_do_not) {
  const PlainFile file(4096);
  const RowLayout layout{&file, 4096, 0, 264};
  const std::vector<std::int64_t> rows{0, 1, 16, 1000};
  const auto reads = plan_reads(rows, layout);
  BOOST_REQUIRE(reads.size() == 2U);
  BOOST_TEST(reads[0].request.offset == 4096U);
  BOOST_TEST(reads[0].request.bytes == 8192U);
  BOOST_TEST(reads[0].request.needed == 17U * 264U);
  BOOST_TEST(reads[0].last == 3U);
}

BOOST_AUTO_TEST_CASE(every_plan_covers_its_rows_within_the_limits) {
  std::mt19937_64 random(11);
  for (const std::size_t alignment : {1U, 512U, 4096U}) {
    const PlainFile file(alignment);
    for (const std::size_t row_bytes : {1U, 8U, 264U, 4096U, 9000U}) {
      const RowLayout layout{&file, 12'345, 50, row_bytes};
      std::set<std::int64_t> chosen;
      for (int i = 0; i < 400; ++i) chosen.insert(50 + static_cast<std::int64_t>(random() % 3000));
      const std::vector<std::int64_t> rows(chosen.begin(), chosen.end());
      std::size_t next = 0;
      for (const auto& read : plan_reads(rows, layout)) {
        BOOST_REQUIRE_EQUAL(read.first, next);
        BOOST_REQUIRE_LT(read.first, read.last);
        BOOST_REQUIRE_EQUAL(read.request.offset % alignment, 0U);
        BOOST_REQUIRE_EQUAL(read.request.bytes % alignment, 0U);
        BOOST_REQUIRE_LE(read.request.bytes, slot_bytes);
        BOOST_REQUIRE_LE(read.request.needed, read.request.bytes);
        BOOST_REQUIRE_LE(read.request.offset, layout.begin_of(rows[read.first]));
        BOOST_REQUIRE_EQUAL(read.request.offset + read.request.needed,
                            layout.begin_of(rows[read.last - 1]) + row_bytes);
        next = read.last;
      }
      BOOST_TEST(next == rows.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(no_rows_need_no_reads) {
  const PlainFile file(1);
  BOOST_TEST(plan_reads({}, {&file, 0, 0, 8}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
