// Steps of the full-size model on a device that runs nothing: how many kernels and copies each is.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>

#include "gpu/cuda/bench/random_shard.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "tests/build_paths.hpp"
#include "tests/cuda/emulation/dry_run.hpp"

using namespace tandem;
using namespace tandem::gpu;
using cuda::bench::RandomShard;
using cuda::bench::Tokens;

namespace {

constexpr std::int64_t context = 1024;

std::unique_ptr<RandomShard> full_size_shard() {
  const auto config = source_folder() / "tests/gpu/checkpoint_data/deepseek_v41_flash_config.json";
  auto shard = RandomShard::make({config, 2 * context, 6});
  BOOST_REQUIRE_MESSAGE(shard.has_value(), (shard ? std::string() : shard.error().message()));
  BOOST_REQUIRE((*shard)->extend(context, Tokens::random).has_value());
  return std::move(*shard);
}

// Nodes of the largest of `steps` steps, which are odd and even ones.
std::int64_t nodes_of_steps(RandomShard& shard, int rows, int steps) {
  std::int64_t most = 0;
  for (int i = 0; i < steps; ++i) {
    const auto done = shard.step(rows, rows, Tokens::random, {}, true);
    BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? std::string() : done.error().message()));
    most = std::max(most, use_of(*shard.model().ops).graph_nodes);
  }
  BOOST_TEST(use_of(*shard.model().ops).graph_starts > 0);
  return most;
}

double micros_of_step(RandomShard& shard, int rows) {
  constexpr int steps = 60;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) (void)shard.step(rows, rows, Tokens::random, {}, true);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / steps;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(launches)

BOOST_AUTO_TEST_CASE(a_one_row_step_of_the_forty_layer_model_has_at_most_a_thousand_nodes) {
  const emulation::DryRun dry;
  const auto shard = full_size_shard();
  const std::int64_t nodes = nodes_of_steps(*shard, 1, 8);
  BOOST_TEST(nodes <= 1000);
  BOOST_TEST_MESSAGE("nodes at one row: " << nodes << "; host " << micros_of_step(*shard, 1) << " us a step");
}

BOOST_AUTO_TEST_CASE(a_six_row_step_has_at_most_two_hundred_nodes_more_than_one_of_one_row_may) {
  const emulation::DryRun dry;
  const auto shard = full_size_shard();
  const std::int64_t six = nodes_of_steps(*shard, 6, 8);
  BOOST_TEST(six <= 1200);  // rows of more than a few are rotated by kernels of their own
  BOOST_TEST_MESSAGE("nodes at six rows: " << six << "; host " << micros_of_step(*shard, 6) << " us a step");
}

BOOST_AUTO_TEST_CASE(a_decode_step_that_was_prepared_is_one_graph_and_no_walk) {
  const emulation::DryRun dry;
  const auto shard = full_size_shard();
  const auto step = [&] {
    const auto done = shard->step(1, 1, Tokens::random, {}, true);
    BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? std::string() : done.error().message()));
  };
  for (int i = 0; i < 8; ++i) {  // odd and even positions, each seen, captured and started
    step();
    shard->prepare(1);
  }
  for (int i = 0; i < 8; ++i) {
    const CudaUse before = use_of(*shard->model().ops);
    step();
    const CudaUse after = use_of(*shard->model().ops);
    BOOST_TEST(after.prepared_starts == before.prepared_starts + 1);
    BOOST_TEST(after.operations == before.operations);
    BOOST_TEST(after.graph_nodes <= 1000);
    shard->prepare(1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
