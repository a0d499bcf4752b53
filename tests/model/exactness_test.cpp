// The exactness matrix on the CPU: every chunk size, alone and with others, one result.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "gpu/model/random_model.hpp"
#include "tests/build_paths.hpp"
#include "tests/model/prompt_feeder.hpp"

namespace tandem::gpu::test {
namespace {

void check_same_ending(const Feeding& how, const Ending& expected, const Ending& ending) {
  BOOST_TEST((ending.hidden == expected.hidden), how.text() << ": hidden states differ");
  BOOST_TEST((ending.logits == expected.logits), how.text() << ": logits differ");
  BOOST_TEST((ending.caches == expected.caches), how.text() << ": caches differ");
}

void check_exactness(const Model& model, std::int32_t rows, const std::vector<Feeding>& ways) {
  auto feeder = PromptFeeder::make(model, rows);
  BOOST_REQUIRE_MESSAGE(feeder.has_value(), (feeder ? std::string() : feeder.error().message()));
  Ending expected;
  for (const Feeding& how : ways) {
    auto ending = (*feeder)->feed(how);
    BOOST_REQUIRE_MESSAGE(ending.has_value(), (ending ? std::string() : ending.error().message()));
    BOOST_TEST(ending->tokens.size() == 1U + greedy_rows);
    if (expected.tokens.empty())
      expected = std::move(*ending);
    else
      check_same_ending(how, expected, *ending);
  }
}

std::vector<Feeding> ways_of_short_prompts() {
  std::vector<Feeding> ways;
  for (const bool has_others : {false, true}) {
    for (const std::int32_t chunk : {1, 17, 128, 2048}) ways.push_back({chunk, has_others, has_others});
  }
  return ways;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exactness)

BOOST_AUTO_TEST_CASE(the_golden_model_has_one_result_in_every_chunking_and_company) {
  const auto communicator = make_solo_communicator();
  ModelOptions options;
  options.folder = golden_model_folder() / "ckpt";
  options.max_positions = 8192;
  options.threads = 2;
  options.draft = false;
  const auto model = load_model(options, *communicator, {}, nullptr);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
  // Whole prompts take seconds; a short one tells the small chunks apart as well.
  check_exactness(**model, exactness_rows, {{2048}, {1024}});
  check_exactness(**model, 300, ways_of_short_prompts());
}

BOOST_AUTO_TEST_CASE(a_model_of_exl3_weights_has_one_result_in_every_chunking_and_company) {
  const auto communicator = make_solo_communicator();
  RandomModelOptions options;
  auto config = ModelConfig::load(golden_model_folder() / "ckpt");
  BOOST_REQUIRE(config.has_value());
  options.config = std::move(*config);
  options.threads = 2;
  options.max_positions = 4096;
  options.draft = false;
  const auto model = make_random_model(options, *communicator);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
  check_exactness(**model, 300, ways_of_short_prompts());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
