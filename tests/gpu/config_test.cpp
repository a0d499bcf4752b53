// config.json: every field is checked, every message names file and key; roles follow from the lists of layers.
#include "gpu/config.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "gpu/numerics.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;

namespace {

namespace json = boost::json;

Result<ModelConfig> parse(const json::object& config) {
  return ModelConfig::parse(json::serialize(config), "config.json");
}

ModelConfig released() {
  const auto config = ModelConfig::load(test::released_config_file().parent_path() / "none");
  BOOST_TEST((config.error().code == ErrorCode::not_found));
  return *ModelConfig::parse(test::read_file(test::released_config_file()), "released");
}

// Expects a fault that names `key` in text_config after `change`.
struct Fault {
  const char* key;
  json::value value;  // null removes the key
};

void check_fault(const Fault& fault) {
  json::object config = test::small_config();
  json::object& text = config["text_config"].as_object();
  if (fault.value.is_null()) text.erase(fault.key);
  if (!fault.value.is_null()) text[fault.key] = fault.value;
  BOOST_TEST_CONTEXT(fault.key << " = " << json::serialize(fault.value)) {
    const auto parsed = parse(config);
    BOOST_REQUIRE(parsed.has_error());
    BOOST_TEST((parsed.error().code == ErrorCode::bad_config), parsed.error().message());
    BOOST_TEST(parsed.error().where.find(std::string("config.json: text_config.") + fault.key) == 0U,
               parsed.error().message());
    BOOST_TEST(!parsed.error().expected.empty());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(config)

BOOST_AUTO_TEST_CASE(the_released_configuration_has_the_published_values) {
  const ModelConfig config = released();
  BOOST_TEST(config.hidden == 5120);
  BOOST_TEST(config.mix_width() == 24);
  BOOST_TEST(config.streams_width() == 20480);
  BOOST_TEST(config.q_width() == 32768);
  BOOST_TEST(config.group_width() == 4096);
  BOOST_TEST(config.norm_eps == 1e-20);
  BOOST_TEST(config.gate_temperature == 1.0);
  BOOST_TEST(config.engram.columns() == 24);
  BOOST_TEST(config.engram.row_width() == 6144);
  BOOST_TEST(config.image_token_id == 129264);
  BOOST_TEST(config.has_vision);
  BOOST_TEST(config.low_precision_weights);
  BOOST_TEST(config.max_positions == 1'048'576);
}

BOOST_AUTO_TEST_CASE(the_released_roles_are_the_published_table) {
  const ModelConfig config = released();
  BOOST_REQUIRE(config.roles.size() == 40U);
  for (const LayerRole& role : config.roles) {
    const int i = role.layer;
    BOOST_TEST_CONTEXT("layer " << i) {
      const int kv = i < 2 ? -1 : i < 8 ? 2 : i < 14 ? 8 : i < 20 ? 14 : 20;
      const int index = i < 24 ? kv : i / 4 * 4;
      BOOST_TEST(role.ratio == (i < 2 ? 0 : i < 20 ? 2 : 1));
      BOOST_TEST(role.kv_source == kv);
      BOOST_TEST(role.index_source == std::min(index, 36));
      BOOST_TEST(role.index_keys == kv);
      BOOST_TEST(role.publishes_candidates == (i == 20));
      BOOST_TEST(role.uses_candidates == (i >= 24 && i % 4 == 0 && i <= 36));
      BOOST_TEST(role.has_engram == (i == 1 || i == 14));
      BOOST_TEST(role.tap == (i >= 37 ? i - 37 : -1));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_golden_configuration_has_its_four_kinds_of_sources) {
  const auto config = ModelConfig::load(test::golden_checkpoint());
  BOOST_REQUIRE_MESSAGE(config.has_value(), config.error().message());
  BOOST_TEST(config->roles[4].is_kv_source());
  BOOST_TEST(config->roles[4].has_engram);
  BOOST_TEST(config->roles[6].publishes_candidates);
  BOOST_TEST(config->roles[8].uses_candidates);
  BOOST_TEST(config->roles[8].index_keys == 6);
  BOOST_TEST(config->roles[9].index_source == 8);
}

BOOST_AUTO_TEST_CASE(every_required_key_is_missed) {
  for (const char* key : {"vocab_size",
                          "hidden_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "head_dim",
                          "qk_rope_head_dim",
                          "q_lora_rank",
                          "o_lora_rank",
                          "o_groups",
                          "moe_intermediate_size",
                          "n_routed_experts",
                          "n_shared_experts",
                          "num_experts_per_tok",
                          "scoring_func",
                          "topk_method",
                          "norm_topk_prob",
                          "routed_scaling_factor",
                          "swiglu_limit",
                          "hidden_act",
                          "rms_norm_eps",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "hc_eps",
                          "sliding_window",
                          "compress_ratios",
                          "kv_source_layer_ids",
                          "index_source_layer_ids",
                          "candidate_topk_blocks",
                          "candidate_block_size",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "rope_theta",
                          "compress_rope_theta",
                          "rope_scaling",
                          "max_position_embeddings",
                          "tie_word_embeddings",
                          "engram_num_embeddings",
                          "engram_max_ngram_size",
                          "engram_n_heads",
                          "engram_head_dim",
                          "engram_vocab_size",
                          "engram_compressed_vocab_size",
                          "engram_pad_token_id",
                          "dspark_block_size",
                          "dspark_noise_token_id",
                          "dspark_target_layer_ids",
                          "dspark_markov_rank",
                          "dspark_n_routed_experts",
                          "dspark_num_experts_per_tok"}) {
    check_fault({key, nullptr});
  }
}

BOOST_AUTO_TEST_CASE(values_of_the_wrong_type_or_out_of_range_are_refused) {
  for (const Fault& fault : std::initializer_list<Fault>{{"hidden_size", "64"},
                                                         {"hidden_size", 64.5},
                                                         {"hidden_size", 0},
                                                         {"hidden_size", -64},
                                                         {"hidden_size", 65537},
                                                         {"hidden_size", 33},
                                                         {"vocab_size", std::uint64_t{18446744073709551615U}},
                                                         {"vocab_size", json::array{}},
                                                         {"num_key_value_heads", 2},
                                                         {"head_dim", 33},
                                                         {"qk_rope_head_dim", 15},
                                                         {"qk_rope_head_dim", 32},
                                                         {"q_lora_rank", 16},
                                                         {"o_groups", 3},
                                                         {"moe_intermediate_size", 96},
                                                         {"num_experts_per_tok", 3},
                                                         {"n_shared_experts", 2},
                                                         {"scoring_func", "softmax"},
                                                         {"scoring_func", 1},
                                                         {"norm_topk_prob", false},
                                                         {"tie_word_embeddings", true},
                                                         {"rms_norm_eps", "tiny"},
                                                         {"rms_norm_eps", -1.0},
                                                         {"swiglu_limit", 0},
                                                         {"sliding_window", 0},
                                                         {"max_position_embeddings", (1 << 24) + 1},
                                                         {"rope_scaling", 16},
                                                         {"rope_theta", 0.5},
                                                         {"compress_rope_theta", 1.0},
                                                         {"index_head_dim", 48},
                                                         {"engram_head_dim", 16},
                                                         {"engram_pad_token_id", 64},
                                                         {"engram_compressed_vocab_size", 65},
                                                         {"dspark_noise_token_id", 64},
                                                         {"dspark_markov_rank", 33},
                                                         {"dspark_num_experts_per_tok", 3}}) {
    check_fault(fault);
  }
}

BOOST_AUTO_TEST_CASE(lists_that_contradict_each_other_are_refused) {
  using list = json::array;
  for (const Fault& fault : std::initializer_list<Fault>{
           {"compress_ratios", list{0, 2, 2, 1, 1}},     // no entry for the draft stage
           {"compress_ratios", list{0, 2, 2, 1, 1, 1}},  // a compressed draft stage
           {"compress_ratios", list{0, 2, 2, 1, 3, 0}},  // a ratio that does not exist
           {"compress_ratios", list{0, 2, 1, 1, 1, 0}},  // layer 2 reads a ratio-2 source with ratio 1
           {"kv_source_layer_ids", list{0, 1, 3}},       // a window-only layer as a source
           {"kv_source_layer_ids", list{3, 1}},
           {"kv_source_layer_ids", list{1, 1, 3}},
           {"kv_source_layer_ids", list{3}},
           {"kv_source_layer_ids", list{1, 5}},  // beyond the last layer
           {"index_source_layer_ids", list{4, 3, 1}},
           {"candidate_source_layer_id", 2},  // not an index source
           {"candidate_topk_blocks", 2},      // (2 - 1) * 4 + 1 < 8
           {"engram_layer_ids", list{5}},
           {"engram_num_embeddings", list{36, 37}},
           {"engram_num_embeddings", list{}},
           {"dspark_target_layer_ids", list{4, 3}},
           {"dspark_target_layer_ids", list{}},
           {"dspark_target_layer_ids", list{5}}}) {
    check_fault(fault);
  }
}

BOOST_AUTO_TEST_CASE(every_kv_source_must_select_for_its_readers) {
  // Without layer 3 in the list its readers would use a selection over layer 1's entries.
  for (const json::array& sources : {json::array{1, 4}, json::array{}}) {
    json::object config = test::small_config();
    json::object& text = config["text_config"].as_object();
    text.erase("candidate_source_layer_id");
    text["index_source_layer_ids"] = sources;
    const auto parsed = parse(config);
    BOOST_REQUIRE(parsed.has_error());
    BOOST_TEST(parsed.error().where == "config.json: text_config.index_source_layer_ids");
    BOOST_TEST(parsed.error().expected == "every KV source to be an index source too");
  }
}

BOOST_AUTO_TEST_CASE(the_root_is_checked_too) {
  struct Root {
    const char* key;
    json::value value;
  };
  for (const Root& root : std::initializer_list<Root>{{"model_type", "deepseek_v4"},
                                                      {"eos_token_id", 64},
                                                      {"bos_token_id", -1},
                                                      {"pad_token_id", "2"},
                                                      {"text_config", json::array{}},
                                                      {"image_token_id", 64},
                                                      {"quantization_config", json::object{{"quant_method", "gptq"}}},
                                                      {"quantization_config", json::object{{"quant_method", "fp8"}}}}) {
    json::object config = test::small_config();
    config[root.key] = root.value;
    const auto parsed = parse(config);
    BOOST_REQUIRE(parsed.has_error());
    BOOST_TEST(parsed.error().where.find(std::string("config.json: ") + root.key) == 0U, parsed.error().message());
  }
  const auto twice = ModelConfig::parse(R"({"model_type":1,"model_type":2})", "config.json");
  BOOST_TEST((twice.error().code == ErrorCode::bad_format));
  BOOST_TEST((ModelConfig::parse("", "config.json").error().code == ErrorCode::bad_format));
  BOOST_TEST((ModelConfig::parse("[]", "config.json").error().code == ErrorCode::bad_format));
}

BOOST_AUTO_TEST_CASE(a_model_without_engram_draft_or_candidates_is_a_model) {
  json::object config = test::small_config();
  config.erase("quantization_config");
  json::object& text = config["text_config"].as_object();
  for (const char* key : {"engram_layer_ids", "num_nextn_predict_layers", "candidate_source_layer_id"}) text.erase(key);
  text["compress_ratios"] = json::array{0, 2, 2, 1, 1};
  const auto parsed = parse(config);
  BOOST_REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message());
  BOOST_TEST(parsed->engram.layers.empty());
  BOOST_TEST(parsed->dspark.stages == 0);
  BOOST_TEST(!parsed->low_precision_weights);
  for (const LayerRole& role : parsed->roles) BOOST_TEST(!role.uses_candidates);
}

BOOST_AUTO_TEST_CASE(ranks_must_divide_heads_groups_vocabulary_and_slices) {
  const ModelConfig config = released();
  for (int ranks : {1, 2, 4, 8}) BOOST_TEST(check_ranks(config, ranks).has_value());
  for (int ranks : {0, -1, 3, 5, 16, 64}) BOOST_TEST(check_ranks(config, ranks).has_error());
  const auto refused = check_ranks(config, 16);
  BOOST_TEST(refused.error().where.find("o_groups over 16 ranks") == 0U);
}

BOOST_AUTO_TEST_CASE(numeric_modes_are_five) {
  BOOST_TEST(!parse_numerics("fp32", true)->kv_quantisers);
  BOOST_TEST(parse_numerics("q32", true)->kv_quantisers);
  BOOST_TEST(!parse_numerics("q32", true)->bf16_activations);
  BOOST_TEST(parse_numerics("s32", false)->q8);
  BOOST_TEST(!parse_numerics("noq8", true)->q8);
  BOOST_TEST(parse_numerics("serve", true)->q8);
  BOOST_TEST(!parse_numerics("serve", false)->q8);
  BOOST_TEST(parse_numerics("serve", false)->fp32_partials);
  BOOST_TEST((parse_numerics("bf16", true).error().code == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_SUITE_END()
