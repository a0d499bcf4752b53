// Caches of sequences: what is reserved, lent and returned, and how far back a truncation is exact.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>

#include "gpu/model/workspace.hpp"
#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

CacheLimits limits_of(std::int64_t kv_tokens) {
  CacheLimits limits;
  limits.max_positions = 1000;
  limits.kv_tokens = kv_tokens;
  limits.lanes_max = 3;
  limits.chunk_rows_max = 32;
  return limits;
}

CacheLayout layout_of(std::int64_t kv_tokens) {
  Rig& rig = shared_rig("serve");
  auto layout = plan_caches(rig.config(), rig.model->numerics, limits_of(kv_tokens));
  BOOST_REQUIRE(layout.has_value());
  return std::move(*layout);
}

std::unique_ptr<SequenceState> opened(CachePools& pools, std::int64_t max_tokens) {
  auto sequence = pools.open(max_tokens);
  BOOST_REQUIRE(sequence.has_value());
  return std::move(*sequence);
}

std::vector<std::int32_t> ids(std::size_t count) {
  return std::vector<std::int32_t>(count, 7);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(state)

BOOST_AUTO_TEST_CASE(a_page_unit_is_a_whole_page_of_every_pool) {
  const CacheLayout layout = layout_of(1000);
  BOOST_TEST(layout.page_tokens == 128);  // 64 entries of a ratio-2 source, two pages of a ratio-1 source
  BOOST_TEST(layout.units == 7);          // the rest of 1000 is less than a unit
  BOOST_REQUIRE_EQUAL(layout.sources.size(), 3U);
  BOOST_TEST(layout.sources[0].pages == 7);
  BOOST_TEST(layout.sources[2].pages == 14);
}

BOOST_AUTO_TEST_CASE(limits_that_hold_nothing_are_refused) {
  Rig& rig = shared_rig("serve");
  const auto code = [&](CacheLimits limits) {
    return plan_caches(rig.config(), rig.model->numerics, limits).error().code;
  };
  BOOST_TEST((code(limits_of(127)) == ErrorCode::invalid_argument));
  CacheLimits no_lanes = limits_of(1000);
  no_lanes.lanes_max = 0;
  BOOST_TEST((code(no_lanes) == ErrorCode::invalid_argument));
  CacheLimits no_rows = limits_of(1000);
  no_rows.chunk_rows_max = 0;
  BOOST_TEST((code(no_rows) == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(lanes_and_units_come_back_when_a_sequence_ends) {
  CachePools pools(layout_of(1000));
  {
    const auto first = pools.open(1);
    const auto second = pools.open(129);
    BOOST_REQUIRE(first.has_value());
    BOOST_REQUIRE(second.has_value());
    BOOST_TEST(pools.free_units() == 4);
    BOOST_TEST(pools.free_lanes() == 1);
    BOOST_TEST((pools.open(640).error().code == ErrorCode::resource));
    BOOST_TEST((pools.open(0).error().code == ErrorCode::out_of_range));
    BOOST_TEST((pools.open(1001).error().code == ErrorCode::out_of_range));
    const auto third = pools.open(512);
    BOOST_REQUIRE(third.has_value());
    BOOST_TEST((pools.open(1).error().code == ErrorCode::resource));
  }
  BOOST_TEST(pools.free_units() == 7);
  BOOST_TEST(pools.free_lanes() == 3);
}

BOOST_AUTO_TEST_CASE(no_two_places_of_open_sequences_overlap) {
  CachePools pools(layout_of(1000));
  std::vector<std::unique_ptr<SequenceState>> open;
  std::set<const std::byte*> places;
  std::size_t expected = 0;
  for (const std::int64_t tokens : {200, 300}) {
    open.push_back(opened(pools, tokens));
    const SequenceState& sequence = *open.back();
    for (const SourceLayout& source : pools.layout().sources) {
      for (std::int64_t entry = 0; entry < tokens / source.ratio; ++entry) {
        places.insert(sequence.entries(source.layer).at(entry));
        places.insert(sequence.index_keys(source.layer).at(entry));
        expected += 2;
      }
      for (std::int64_t position = 0; position < sequence.open_slots(); ++position) {
        places.insert(reinterpret_cast<const std::byte*>(sequence.open_row(source.layer, position)));
        ++expected;
      }
    }
    for (int layer = 0; layer < pools.layout().layers; ++layer) {
      for (std::int64_t slot = 0; slot < pools.layout().window_slots; ++slot) {
        places.insert(sequence.window(layer).at(slot));
        ++expected;
      }
    }
  }
  BOOST_TEST(places.size() == expected);
}

BOOST_AUTO_TEST_CASE(truncation_is_refused_where_the_rings_no_longer_reach) {
  CachePools pools(layout_of(1000));
  const auto sequence = opened(pools, 100);
  const std::int64_t reach = pools.layout().rollback_rows;
  BOOST_TEST(reach == 7);  // block of 5 drafts, the anchor, and the open row in front
  for (int step = 0; step < 3; ++step) BOOST_REQUIRE(sequence->append(ids(20)).has_value());
  BOOST_TEST(sequence->truncation_floor() == 60 - reach);
  BOOST_TEST((sequence->truncate(60 - reach - 1).error().code == ErrorCode::out_of_range));
  BOOST_TEST((sequence->truncate(61).error().code == ErrorCode::out_of_range));
  BOOST_TEST(sequence->truncate(60 - reach).has_value());
  BOOST_TEST(sequence->length() == 60 - reach);
  BOOST_TEST(sequence->truncation_floor() == 60 - reach);  // what was overwritten stays overwritten
  BOOST_TEST(sequence->truncate(0).has_value());           // nothing is visible: always exact
  BOOST_REQUIRE(sequence->append(ids(10)).has_value());
  BOOST_TEST(sequence->truncate(9).has_value());  // what was written before the 0 is not looked back at
}

BOOST_AUTO_TEST_CASE(a_sequence_never_grows_beyond_its_limits) {
  CachePools pools(layout_of(1000));
  const auto sequence = opened(pools, 40);
  BOOST_TEST((sequence->append(ids(33)).error().code == ErrorCode::out_of_range));
  BOOST_TEST(sequence->append(ids(32)).has_value());
  BOOST_TEST((sequence->append(ids(9)).error().code == ErrorCode::out_of_range));
  BOOST_TEST(sequence->append(ids(8)).has_value());
  BOOST_TEST(sequence->length() == 40);
}

BOOST_AUTO_TEST_CASE(a_workspace_allocates_nothing_once_it_has_seen_a_step) {
  Workspace workspace;
  const auto step = [&] {
    workspace.reset();
    const Tensor kept = workspace.f32(1000, 300);
    for (int layer = 0; layer < 10; ++layer) {
      const Workspace::Scope scope(workspace);
      const Tensor scratch = workspace.f32(1000, 300);
      BOOST_TEST(scratch.data != kept.data);
    }
  };
  step();
  step();
  const std::size_t bytes = workspace.bytes();
  for (int i = 0; i < 5; ++i) step();
  BOOST_TEST(workspace.bytes() == bytes);
  BOOST_TEST(bytes < 4U * 1000 * 300 * sizeof(float));
}

BOOST_AUTO_TEST_CASE(a_workspace_that_returns_to_a_mark_goes_on_where_that_was) {
  Workspace workspace;
  const Tensor first = workspace.f32(10, 10);
  const Workspace::Mark before = workspace.mark();
  const Tensor second = workspace.f32(20, 20);
  const Workspace::Mark behind = workspace.mark();
  const Tensor third = workspace.f32(30, 30);
  BOOST_REQUIRE(workspace.is_merged());
  workspace.reset();
  BOOST_TEST(workspace.f32(10, 10).data == first.data);
  workspace.return_to(behind);
  BOOST_TEST(workspace.f32(30, 30).data == third.data);
  workspace.return_to(before);
  BOOST_TEST(workspace.f32(20, 20).data == second.data);
  BOOST_TEST(!Workspace().mark().used);
  while (workspace.is_merged()) workspace.f32(1000, 300);
  workspace.reset();
  BOOST_TEST(workspace.is_merged());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
