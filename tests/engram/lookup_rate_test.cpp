// The benchmark measures what it says, on files that it may read; packed files are found by their names.
#include "engram/bench/lookup_rate.hpp"

#include <boost/test/unit_test.hpp>

#include "engram/pack/open_table.hpp"
#include "engram/pack/output_file.hpp"
#include "tests/engram/specs_fixture.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

const PackedTable small_table{1, {{256}, 5000, 0, 5000}};
constexpr std::chrono::milliseconds shortly{20};

}  // namespace

BOOST_AUTO_TEST_SUITE(lookup_rate)

BOOST_AUTO_TEST_CASE(percentiles_are_those_of_the_durations) {
  const Rate rate = make_rate(300, 2.0, {5, 1, 4, 2, 3});
  BOOST_TEST(rate.per_s == 150);
  BOOST_TEST(rate.p50_us == 3);
  BOOST_TEST(rate.p99_us == 4);
  BOOST_TEST(make_rate(1, 1.0, {7}).p99_us == 7);
}

BOOST_AUTO_TEST_CASE(a_random_table_is_a_packed_file_and_not_sparse) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "table.bin";
  BOOST_REQUIRE(write_random_table(file, small_table).has_value());
  const auto storage = std::make_shared<Storage>();
  auto store = open_packed_store(file, small_table, storage);
  BOOST_REQUIRE_MESSAGE(store.has_value(), (store ? "" : store.error().message()));
  auto out = OutputFile::open(file);
  BOOST_REQUIRE(out.has_value());
  BOOST_TEST(out->extent()->allocated >= out->extent()->bytes);
  std::vector<std::unique_ptr<RowStore>> stores;
  stores.push_back(std::move(*store));
  Reader reader(std::move(stores), {.cache_rows = 0});
  for (const std::size_t in_flight : {1, 3}) {
    const auto rate = measure_lookups(reader, {10, in_flight, 0, 5000, shortly, 1});
    BOOST_REQUIRE_MESSAGE(rate.has_value(), (rate ? "" : rate.error().message()));
    BOOST_TEST(rate->per_s > 0);
    BOOST_TEST(rate->p99_us >= rate->p50_us);
  }
  BOOST_TEST((measure_lookups(reader, {10, 1, 5000, 5001, shortly, 1}).error().code == ErrorCode::out_of_range));
}

BOOST_AUTO_TEST_CASE(the_disks_limit_is_measured_with_any_depth_or_named_as_impossible) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "table.bin";
  BOOST_REQUIRE(write_random_table(file, small_table).has_value());
  for (const auto& [depth, together] : {std::pair{1, 0}, {8, 0}, {8, 3}, {2, 7}}) {
    const auto rate = measure_random_reads({file, 0, 64 * page_bytes, depth, together, false, shortly, 1});
    if (!rate && rate.error().code == ErrorCode::unavailable) {
      BOOST_TEST_MESSAGE("no io_uring here: the disk's limit is not measured");
      return;
    }
    BOOST_REQUIRE_MESSAGE(rate.has_value(), (rate ? "" : rate.error().message()));
    BOOST_TEST(rate->per_s > 0);
  }
  BOOST_TEST(
      (measure_random_reads({file, 0, 100, 1, 0, false, shortly, 1}).error().code == ErrorCode::invalid_argument));
  BOOST_TEST((measure_random_reads({file, 0, 1ULL << 40, 1, 0, false, shortly, 1}).error().code == ErrorCode::io));
  BOOST_TEST((measure_random_reads({folder.path() / "none", 0, 8192, 1, 0, false, shortly, 1}).error().code ==
              ErrorCode::not_found));
}

BOOST_AUTO_TEST_CASE(packed_files_are_found_by_name_with_the_rows_that_their_rank_owns) {
  const auto geometry = Geometry::make(test::released_spec());
  BOOST_REQUIRE(geometry.has_value());
  const test::TemporaryFolder folder;
  BOOST_TEST(find_packed_files(folder.path(), *geometry, 1).empty());
  BOOST_TEST(find_packed_files(folder.path() / "none", *geometry, 0).empty());
  folder.write("engram-l14-r1of2.bin", {});
  folder.write("engram-l14-r0of1.bin", {});
  folder.write("engram-l1-r0of2.bin", {});
  folder.write("engram-l14-r2of2.bin", {});  // no such rank
  const auto found = find_packed_files(folder.path(), *geometry, 1);
  BOOST_REQUIRE(found.size() == 2U);
  BOOST_TEST(found[0].first_row == 0);
  BOOST_TEST(found[0].last_row == 384'016'682);
  BOOST_TEST(found[1].first_row == 192'007'016);
  BOOST_TEST(found[1].last_row == 384'016'682);
}

BOOST_AUTO_TEST_SUITE_END()
