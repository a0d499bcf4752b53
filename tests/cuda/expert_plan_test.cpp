// Plans of experts, written down plainly, and the gate of many uses.
#include <boost/test/unit_test.hpp>

#include <string>

#include "gpu/cuda/expert_kernels.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::cuda;
using namespace tandem::gpu::test;

namespace {

using Ids = std::vector<std::int32_t>;

// As lists of numbers: those of ExpertPlan one behind the other.
struct PlanLists {
  Ids uses, sources, experts, positions, tiles;
};

PlanLists plain_plan(const Ids& ids, int slots, int experts, int tile_rows) {
  PlanLists plan;
  plan.positions.assign(ids.size(), 0);
  for (int e = 0; e < experts; ++e) {
    const auto first = static_cast<int>(plan.uses.size());
    for (std::size_t use = 0; use < ids.size(); ++use) {
      if (ids[use] != e) continue;
      plan.positions[use] = static_cast<std::int32_t>(plan.uses.size());
      plan.uses.push_back(static_cast<std::int32_t>(use));
      plan.sources.push_back(static_cast<std::int32_t>(use) / slots);
      plan.experts.push_back(e);
    }
    const auto end = static_cast<int>(plan.uses.size());
    for (int from = first; from < end; from += tile_rows) {
      for (const int number : {e, from, std::min(tile_rows, end - from)}) plan.tiles.push_back(number);
    }
  }
  return plan;
}

struct PlanCase {
  std::int64_t rows, slots;
  int experts, tile_rows;
  bool is_one_expert = false;
};

void check_plan(const PlanCase& test, std::uint32_t seed) {
  Random random(seed);
  Ids ids;
  for (std::int64_t i = 0; i < test.rows * test.slots; ++i) {
    ids.push_back(test.is_one_expert ? test.experts - 1 : static_cast<std::int32_t>(random.below(test.experts)));
  }
  const auto uses = static_cast<std::int64_t>(ids.size());
  const std::int64_t tiles_max = std::min<std::int64_t>(uses, test.experts) + uses / test.tile_rows;
  const DeviceMatrix device_ids(ids, test.rows), lists(4, uses, DType::i32), tiles(1, 3 * tiles_max, DType::i32),
      count(1, 1, DType::i32);
  BOOST_REQUIRE(backends().cuda->wait().has_value());
  auto* words = static_cast<std::int32_t*>(lists.tensor().data);
  ExpertPlan plan;
  plan.uses = words;
  plan.source_of_use = words + uses;
  plan.expert_of_use = words + 2 * uses;
  plan.position_of_use = words + 3 * uses;
  plan.tiles = static_cast<ExpertTile*>(tiles.tensor().data);
  plan.tile_count = static_cast<std::int32_t*>(count.tensor().data);
  plan.tiles_max = tiles_max;
  BOOST_REQUIRE((plan_experts(nullptr, device_ids, test.experts, test.tile_rows, plan) == cudaSuccess));
  BOOST_REQUIRE((cudaStreamSynchronize(nullptr) == cudaSuccess));
  PlanLists expected = plain_plan(ids, static_cast<int>(test.slots), test.experts, test.tile_rows);
  BOOST_TEST(count.ints().front() == static_cast<int>(expected.tiles.size() / 3));
  expected.tiles.resize(static_cast<std::size_t>(3 * tiles_max), 0);
  Ids all;
  for (const Ids* list : {&expected.uses, &expected.sources, &expected.experts, &expected.positions}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  BOOST_TEST((lists.ints() == all), std::to_string(uses) << " uses of " << test.experts);
  BOOST_TEST((tiles.ints() == expected.tiles), std::to_string(uses) << " uses of " << test.experts << ": tiles");
}

void check_gate(std::int64_t rows, std::int64_t cols, bool round) {
  Random random(95);
  const DeviceMatrix gate(random.floats(rows * cols, 4.0F), rows), up(random.floats(rows * cols, 4.0F), rows),
      weights(random.floats(rows), 1), all(rows, cols), one(rows, cols);
  Ids uses;
  for (std::int64_t i = 0; i < rows; ++i) uses.push_back(static_cast<std::int32_t>((i * 7 + 3) % rows));
  const DeviceMatrix device_uses(uses, 1);
  BOOST_REQUIRE(backends().cuda->wait().has_value());
  GateUsesWork work{gate,
                    up,
                    static_cast<const std::int32_t*>(device_uses.tensor().data),
                    static_cast<const float*>(weights.tensor().data),
                    3.0F,
                    round,
                    all};
  BOOST_REQUIRE((gate_uses(nullptr, work) == cudaSuccess));
  for (std::int64_t row = 0; row < rows; ++row) {
    const GateUsesWork alone{
        gate.tensor().slice_rows(row, 1), up.tensor().slice_rows(row, 1), work.uses + row, work.weights, 3.0F, round,
        one.tensor().slice_rows(row, 1)};
    BOOST_REQUIRE((gate_uses(nullptr, alone) == cudaSuccess));
  }
  BOOST_REQUIRE((cudaStreamSynchronize(nullptr) == cudaSuccess));
  check_same("gate of " + std::to_string(rows) + " x " + std::to_string(cols), one.floats(), all.floats());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_plans)

BOOST_AUTO_TEST_CASE(uses_are_listed_expert_by_expert_in_their_order) {
  if (!has_device()) return;
  check_plan({1, 1, 1, 1}, 91);
  check_plan({1, 6, 384, 128}, 92);
  for (const std::int64_t rows : {23, 24, 25, 97}) check_plan({rows, 2, 7, 4}, 93);
  check_plan({171, 3, 33, 128}, 96);
  check_plan({1024, 6, 384, 128}, 97);
  check_plan({1023, 7, 1024, 1}, 98);
  check_plan({10922, 6, 5, 128}, 99);    // more than the ids that lie near
  check_plan({65536, 1, 384, 128}, 90);  // one more than stretches take
}

BOOST_AUTO_TEST_CASE(one_expert_may_have_all_uses) {
  if (!has_device()) return;
  check_plan({30, 1, 8, 4, true}, 91);
  check_plan({1000, 1, 8, 128, true}, 92);
  check_plan({65535, 1, 1, 128, true}, 93);
}

BOOST_AUTO_TEST_CASE(many_uses_have_the_gate_of_each_alone) {
  if (!has_device()) return;
  for (const bool round : {false, true}) {
    check_gate(63, 36, round);
    check_gate(64, 36, round);
    check_gate(65, 1152, round);
    check_gate(100, 33, round);
  }
}

BOOST_AUTO_TEST_SUITE_END()
