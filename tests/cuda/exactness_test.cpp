// The exactness matrix on the device: a row's bits do not depend on the chunks of its prompt, on other rows of its
// steps, nor on whether steps are graphs.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>

#include "gpu/comm/communicator.hpp"
#include "gpu/model/random_model.hpp"
#include "tests/build_paths.hpp"
#include "tests/cuda/device_fixture.hpp"
#include "tests/model/prompt_feeder.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

constexpr std::int64_t exactness_positions = 8192;

// Steps of at most so many rows of the prompt are graphs, with others or without.
constexpr std::int32_t chunk_of_graphs = 17;

void check_one_result(const Model& model) {
  auto feeder = PromptFeeder::make(model, exactness_rows);
  BOOST_REQUIRE_MESSAGE(feeder.has_value(), (feeder ? std::string() : feeder.error().message()));
  const auto expected = (*feeder)->feed({64, false, false});
  BOOST_REQUIRE_MESSAGE(expected.has_value(), (expected ? std::string() : expected.error().message()));
  BOOST_TEST(expected->tokens.size() == 1U + greedy_rows);
  for (const bool is_one : {false, true}) {
    for (const bool has_others : {false, true}) {
      for (const std::int32_t chunk : exactness_chunks) {
        const Feeding how{chunk, has_others, is_one};
        const CudaUse before = use_of(*model.ops);
        const auto ending = (*feeder)->feed(how);
        BOOST_REQUIRE_MESSAGE(ending.has_value(), (ending ? std::string() : ending.error().message()));
        check_same(how.text() + ": hidden states", expected->hidden, ending->hidden);
        check_same(how.text() + ": logits", expected->logits, ending->logits);
        BOOST_TEST((ending->caches == expected->caches), how.text() << ": caches differ");
        const std::int64_t graphs = use_of(*model.ops).graph_starts - before.graph_starts;
        if (!is_one) BOOST_TEST(graphs == 0, how.text());
        if (is_one && chunk <= chunk_of_graphs) BOOST_TEST(graphs > exactness_rows / chunk / 2, how.text());
      }
    }
  }
}

// The full-size model with a fifth of its layers and few experts and words: all of its kernels are those of service.
ModelConfig short_flash_config() {
  std::ifstream file(tandem::source_folder() / "tests/gpu/checkpoint_data/deepseek_v41_flash_config.json");
  boost::json::object root = boost::json::parse(std::string(std::istreambuf_iterator<char>(file), {})).as_object();
  boost::json::object& text = root["text_config"].as_object();
  text["num_hidden_layers"] = 8;
  text["compress_ratios"] = {0, 0, 2, 2, 1, 1, 1, 1};
  text["kv_source_layer_ids"] = {2, 4};
  text["index_source_layer_ids"] = {2, 4, 6};
  text["candidate_source_layer_id"] = 4;
  text["candidate_topk_blocks"] = 128;
  text["n_routed_experts"] = 16;
  text["vocab_size"] = 4096;
  text["num_nextn_predict_layers"] = 0;
  text["engram_layer_ids"] = boost::json::array();
  root.erase("image_token_id");
  auto config = ModelConfig::parse(boost::json::serialize(root), "short config");
  BOOST_REQUIRE_MESSAGE(config.has_value(), (config ? std::string() : config.error().message()));
  return std::move(*config);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exactness)

BOOST_AUTO_TEST_CASE(the_tiny_model_has_one_result_in_every_chunking_company_and_graph) {
  if (!has_device()) return;
  const auto communicator = make_solo_communicator();
  ModelOptions options;
  options.folder = tandem::source_folder() / "configs/tiny";
  options.backend = "cuda";
  options.max_positions = exactness_positions;
  options.draft = false;
  const auto model = load_model(options, *communicator, {}, nullptr);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
  check_one_result(**model);
}

BOOST_AUTO_TEST_CASE(layers_of_full_size_have_one_result_in_every_chunking_company_and_graph) {
  if (!has_device()) return;
  const auto communicator = make_solo_communicator();
  RandomModelOptions options;
  options.config = short_flash_config();
  options.backend = "cuda";
  options.max_positions = exactness_positions;
  options.draft = false;
  const auto model = make_random_model(options, *communicator);
  BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
  check_one_result(**model);
}

BOOST_AUTO_TEST_SUITE_END()
