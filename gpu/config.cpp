// Reads config.json line by line into a ModelConfig. Relations between fields are checked in config_check.cpp, roles in
// layer_role.cpp.
//
// The upper limits are far above any released size; they exist so that products of two sizes fit 31 bits and the
// inventory stays small.
#include "gpu/config.hpp"

#include <fmt/format.h>

#include "engram/text_file.hpp"
#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/config_check.hpp"
#include "gpu/config_fields.hpp"

namespace tandem::gpu {
namespace {

constexpr int layers_max = 512;
constexpr int stages_max = 8;
constexpr IntRange width{1, 65536};
constexpr IntRange count{1, 2048};
constexpr IntRange vocabulary{1, std::int64_t{1} << 24};
// 2^24: up to there a position is an exact FP32 number, which the rotary angles need.
constexpr IntRange positions{1, std::int64_t{1} << 24};
// The YaRN ramp divides by the base's logarithm: at 1 every angle would be NaN.
constexpr double compress_theta_min = 1.001;

void read_sizes(ConfigFields& text, ModelConfig& config) {
  config.vocab_size = text.integer("vocab_size", vocabulary);
  config.hidden = text.integer("hidden_size", width);
  config.layers = text.integer("num_hidden_layers", {1, layers_max});
  config.heads = text.integer("num_attention_heads", count);
  text.integer("num_key_value_heads", {1, 1});
  config.head_dim = text.integer("head_dim", {1, 4096});
  config.rope_dim = text.integer("qk_rope_head_dim", {2, 4096});
  config.q_lora_rank = text.integer("q_lora_rank", width);
  config.o_lora_rank = text.integer("o_lora_rank", width);
  config.o_groups = text.integer("o_groups", count);
  config.norm_eps = text.number("rms_norm_eps", 0.0, 1e-2);
  config.window = text.integer("sliding_window", width);
  config.max_positions = text.long_integer("max_position_embeddings", positions);
  text.require_flag("tie_word_embeddings", false);
}

void read_moe(ConfigFields& text, ModelConfig& config) {
  config.moe_intermediate = text.integer("moe_intermediate_size", width);
  config.experts = text.integer("n_routed_experts", count);
  config.experts_per_token = text.integer("num_experts_per_tok", {1, 64});
  config.shared_experts = text.integer("n_shared_experts", {1, 1});
  config.routed_scaling = text.number("routed_scaling_factor", 1e-6, 1e6);
  config.gate_temperature = text.number_or("gate_temperature", 1.0, 1e-6, 1e6);
  config.swiglu_limit = text.number("swiglu_limit", 1e-6, 1e6);
  text.require("scoring_func", "sqrtsoftplus");
  text.require("topk_method", "noaux_tc");
  text.require_flag("norm_topk_prob", true);
  text.require("hidden_act", "silu");
}

void read_hyper_connections(ConfigFields& text, ModelConfig& config) {
  config.hc_mult = text.integer("hc_mult", {1, 16});
  config.hc_sinkhorn_iters = text.integer("hc_sinkhorn_iters", {1, 1000});
  config.hc_eps = text.number("hc_eps", 0.0, 1e-2);
}

void read_rope(ConfigFields& text, const std::string& where, RopeConfig& rope) {
  rope.theta = text.number("rope_theta", 1.0, 1e12);
  rope.compress_theta = text.number("compress_rope_theta", compress_theta_min, 1e12);
  const boost::json::object* scaling = text.object("rope_scaling");
  if (scaling == nullptr) return;
  ConfigFields yarn(*scaling, where, "text_config.rope_scaling");
  yarn.require(yarn.has("rope_type") ? "rope_type" : "type", "yarn");
  rope.yarn_factor = yarn.number("factor", 1.0, 1e6);
  rope.yarn_beta_fast = yarn.number("beta_fast", 1e-3, 1e6);
  rope.yarn_beta_slow = yarn.number("beta_slow", 1e-3, 1e6);
  rope.yarn_original_max = yarn.number("original_max_position_embeddings", 1.0, 1e9);
  if (rope.yarn_beta_fast <= rope.yarn_beta_slow)
    yarn.fail("beta_fast", "not above beta_slow", "beta_fast > beta_slow");
  text.adopt(yarn);
}

void read_compression(ConfigFields& text, ModelConfig& config) {
  const IntRange layer{0, config.layers - 1};
  const auto most = static_cast<std::size_t>(config.layers);
  config.compress_ratios = text.integers("compress_ratios", {0, 2}, most + stages_max);
  config.kv_sources = text.integers("kv_source_layer_ids", layer, most);
  config.index_sources = text.integers("index_source_layer_ids", layer, most);
  config.index_heads = text.integer("index_n_heads", count);
  config.index_head_dim = text.integer("index_head_dim", {1, 4096});
  config.index_topk = text.integer("index_topk", width);
  if (!text.has("candidate_source_layer_id")) return;
  config.candidate_source = text.integer("candidate_source_layer_id", layer);
  config.candidate_blocks = text.integer("candidate_topk_blocks", {1, 1 << 20});
  config.candidate_block_size = text.integer("candidate_block_size", {1, 4096});
}

void read_engram(ConfigFields& text, ModelConfig& config) {
  EngramConfig& engram = config.engram;
  if (!text.has("engram_layer_ids")) return;
  engram.layers = text.integers("engram_layer_ids", {0, config.layers - 1}, static_cast<std::size_t>(config.layers));
  if (engram.layers.empty()) return;
  engram.rows = text.long_integers("engram_num_embeddings", {1, std::int64_t{1} << 40}, engram.layers.size());
  engram.max_ngram = text.integer("engram_max_ngram_size", {2, 8});
  engram.heads = text.integer("engram_n_heads", {1, 64});
  engram.head_dim = text.integer("engram_head_dim", {1, 4096});
  engram.vocab_size = text.long_integer("engram_vocab_size", {2, std::int64_t{1} << 40});
  engram.compressed_vocab_size = text.long_integer("engram_compressed_vocab_size", {1, config.vocab_size});
  engram.pad_token_id = text.integer("engram_pad_token_id", {0, config.vocab_size - 1});
}

void read_dspark(ConfigFields& text, ModelConfig& config) {
  DsparkConfig& dspark = config.dspark;
  dspark.stages = text.integer_or("num_nextn_predict_layers", 0, {0, stages_max});
  if (dspark.stages == 0) return;
  dspark.block_size = text.integer("dspark_block_size", {1, 64});
  dspark.noise_token_id = text.integer("dspark_noise_token_id", {0, config.vocab_size - 1});
  dspark.target_layers = text.integers("dspark_target_layer_ids", {0, config.layers - 1}, 64);
  dspark.markov_rank = text.integer("dspark_markov_rank", width);
  dspark.experts = text.integer("dspark_n_routed_experts", count);
  dspark.experts_per_token = text.integer("dspark_num_experts_per_tok", {1, 64});
}

// "fp8" means the official storage: 32x32 blocks with power-of-two scales, FP4 experts. "exl3" weights are not low
// precision in the sense of the activation quantiser.
void read_quantization(ConfigFields& root, const std::string& where, ModelConfig& config) {
  if (!root.has("quantization_config")) return;
  const boost::json::object* object = root.object("quantization_config");
  if (object == nullptr) return;
  ConfigFields fields(*object, where, "quantization_config");
  const std::string method = fields.text("quant_method");
  if (method == "fp8") {
    const std::vector<int> block = fields.integers("weight_block_size", {32, 32}, 2);
    if (block.size() != 2) fields.fail("weight_block_size", std::to_string(block.size()) + " entries", "[32, 32]");
    fields.require("scale_fmt", "ue8m0");
    fields.require("expert_dtype", "fp4");
    config.low_precision_weights = true;
  } else if (method != "exl3") {
    fields.fail("quant_method", fmt::format("\"{}\"", method), "\"fp8\" or \"exl3\"");
  }
  root.adopt(fields);
}

void read_root(ConfigFields& root, const std::string& where, ModelConfig& config) {
  const IntRange token{0, config.vocab_size - 1};
  root.require("model_type", "deepseek_v41");
  config.bos_id = root.integer("bos_token_id", token);
  config.eos_id = root.integer("eos_token_id", token);
  config.pad_id = root.integer("pad_token_id", token);
  config.image_token_id = root.integer_or("image_token_id", -1, token);
  config.has_vision = root.has("vision_config");
  read_quantization(root, where, config);
}

}  // namespace

Result<ModelConfig> ModelConfig::parse(std::string_view json, const std::string& where) {
  const Result<boost::json::object> parsed = parse_strict_json(json, where);
  if (!parsed) return parsed.error();
  ConfigFields root(*parsed, where, "");
  const boost::json::object* nested = root.object("text_config");
  if (nested == nullptr) return *root.error();
  ConfigFields text(*nested, where, "text_config");
  ModelConfig config;
  read_sizes(text, config);
  if (text.error()) return *text.error();  // the lists below are checked against these sizes
  read_moe(text, config);
  read_hyper_connections(text, config);
  read_rope(text, where, config.rope);
  read_compression(text, config);
  read_engram(text, config);
  read_dspark(text, config);
  read_root(root, where, config);
  if (text.error()) return *text.error();
  if (root.error()) return *root.error();
  if (Result<void> relations = check_relations(config, where); !relations) return relations.error();
  Result<std::vector<LayerRole>> roles = derive_roles(config);
  if (!roles) {
    Error error = roles.error();
    error.where = where + ": text_config." + error.where;
    return error;
  }
  config.roles = std::move(*roles);
  return config;
}

Result<ModelConfig> ModelConfig::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const Result<std::string> text = engram::read_text(path, config_bytes_max);
  if (!text) return text.error();
  return parse(*text, path.string());
}

}  // namespace tandem::gpu
