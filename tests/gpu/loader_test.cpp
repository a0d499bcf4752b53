// The golden checkpoint loads, whole and in slices.
#include <boost/test/unit_test.hpp>

#include "gpu/checkpoint/loader.hpp"

using namespace tandem;
using namespace tandem::gpu;

BOOST_AUTO_TEST_SUITE(loader)

BOOST_AUTO_TEST_CASE(the_golden_checkpoint_loads_on_one_rank) {
  const std::filesystem::path folder = std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/golden/model/ckpt";
  const auto config = ModelConfig::load(folder);
  BOOST_REQUIRE_MESSAGE(config.has_value(), config.error().message());
  const auto weights = load_weights(folder, *config, {});
  BOOST_REQUIRE_MESSAGE(weights.has_value(), weights.error().message());
  BOOST_TEST(weights->layers.size() == 10U);
  BOOST_TEST(weights->bytes > 17'000'000U);
}

BOOST_AUTO_TEST_SUITE_END()
