// Random models: every configuration that the loader takes can be made without a checkpoint, and computes.
#include "gpu/model/random_model.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "gpu/comm/communicator.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/state/cache_pools.hpp"
#include "tests/build_paths.hpp"

using namespace tandem;
using namespace tandem::gpu;

namespace {

RandomModelOptions golden_shape(int ranks, std::uint64_t seed) {
  RandomModelOptions options;
  auto config = ModelConfig::load(golden_model_folder() / "ckpt");
  BOOST_REQUIRE(config.has_value());
  options.config = std::move(*config);
  options.ranks = ranks;
  options.max_positions = 64;
  options.seed = seed;
  return options;
}

// Logits of the last of 20 rows.
std::vector<float> logits_of(const Model& model) {
  CacheLimits limits;
  limits.max_positions = 64;
  limits.kv_tokens = 256;
  limits.chunk_rows_max = 32;
  auto layout = plan_caches(model.config, model.numerics, limits);
  BOOST_REQUIRE(layout.has_value());
  CachePools pools(std::move(*layout), model.ops->memory());
  auto sequence = pools.open(40);
  BOOST_REQUIRE(sequence.has_value());
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 20; ++i) tokens.push_back(7 * i % 200);
  BOOST_REQUIRE((*sequence)->append(tokens).has_value());
  RowBatch rows;
  rows.add(**sequence, 0, 20);
  ForwardPass forward(model);
  const auto passed = forward.run(rows, {});
  BOOST_REQUIRE(passed.has_value());
  const std::int32_t last = 19;
  const auto logits = forward.logits(*passed, {&last, 1});
  BOOST_REQUIRE(logits.has_value());
  return {logits->row<float>(0), logits->row<float>(0) + logits->cols};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_model)

BOOST_AUTO_TEST_CASE(a_random_model_gives_finite_logits_that_follow_its_seed) {
  const auto communicator = make_solo_communicator();
  for (const int ranks : {1, 2}) {
    std::vector<std::vector<float>> seen;
    for (const std::uint64_t seed : {5U, 5U, 6U}) {
      const auto model = make_random_model(golden_shape(ranks, seed), *communicator);
      BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
      seen.push_back(logits_of(**model));
      BOOST_TEST(seen.back().size() == 256U / static_cast<unsigned>(ranks));
      double size = 0;
      for (const float value : seen.back()) size += static_cast<double>(value) * value;
      BOOST_TEST(std::isfinite(size));
      BOOST_TEST(size > 0);
    }
    BOOST_TEST(seen[0] == seen[1], boost::test_tools::per_element());
    BOOST_TEST((seen[0] != seen[2]));
  }
}

BOOST_AUTO_TEST_CASE(a_random_model_for_ranks_that_do_not_divide_it_is_refused) {
  const auto communicator = make_solo_communicator();
  const auto model = make_random_model(golden_shape(3, 1), *communicator);
  BOOST_REQUIRE(!model.has_value());
  BOOST_TEST((model.error().code == ErrorCode::invalid_argument || model.error().code == ErrorCode::bad_config),
             model.error().message());
}

BOOST_AUTO_TEST_SUITE_END()
