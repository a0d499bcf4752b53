// ModelConfig: everything that a checkpoint's config.json says about the architecture, checked, plus the role of every
// layer.
//
// Nothing in Tandem is hard-coded to 40 layers or to the released sizes: the tiny model and the real one differ only
// here. Symbols of the formulas in comments: D hidden, H heads, d head_dim, R rope_dim, C hc_mult, W sliding_window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

inline constexpr std::uint64_t config_bytes_max = std::uint64_t{16} << 20;  // of a config.json

struct EngramConfig {
  std::vector<int> layers;                 // engram_layer_ids, ascending; empty = the model has no Engram
  std::vector<std::int64_t> rows;          // engram_num_embeddings, one per layer
  int max_ngram = 4;                       // orders 2..max_ngram
  int heads = 8;                           // hash heads per order
  int head_dim = 256;                      // values of one table row
  std::int64_t vocab_size = 16'000'000;    // lower bound of a head's bucket count
  std::int64_t compressed_vocab_size = 0;  // classes of the token map
  int pad_token_id = 2;                    // token whose class stands for "nothing there"
  int columns() const noexcept { return (max_ngram - 1) * heads; }
  int row_width() const noexcept { return columns() * head_dim; }  // inputs of engram.wkv
};

struct DsparkConfig {
  int stages = 0;                  // num_nextn_predict_layers; 0 = no draft network
  int block_size = 5;              // query rows of one draft pass
  int noise_token_id = 0;          // dspark_noise_token_id
  std::vector<int> target_layers;  // taps: mean over streams entering these layers
  int markov_rank = 0;
  int experts = 0;            // dspark_n_routed_experts
  int experts_per_token = 0;  // dspark_num_experts_per_tok
};

struct RopeConfig {
  double theta = 10000;            // ratio-0 layers and the draft network, no YaRN
  double compress_theta = 160000;  // layers with ratio > 0, with YaRN
  double yarn_factor = 16;
  double yarn_beta_fast = 32;
  double yarn_beta_slow = 1;
  double yarn_original_max = 65536;
};

// What one backbone layer does (model spec table 1.1), derived from the *_layer_ids lists.
struct LayerRole {
  int layer = 0;
  int ratio = 0;          // tokens per compressed entry; 0 = window only
  int kv_source = -1;     // layer whose compressed KV it reads; -1 = none; == layer: it produces them
  int index_source = -1;  // layer whose selection it uses; == layer: it runs the indexer
  int index_keys = -1;    // layer whose index-key cache the indexer at index_source scores
  bool publishes_candidates = false;
  bool uses_candidates = false;  // its own indexer chooses inside the published candidate blocks
  bool has_engram = false;
  int tap = -1;  // index of the DSpark tap taken before this layer, or -1
  bool is_kv_source() const noexcept { return kv_source == layer; }
  bool is_index_source() const noexcept { return index_source == layer; }
};

struct ModelConfig {
  int vocab_size = 0;
  int hidden = 0;  // D
  int layers = 0;
  int heads = 0;     // H
  int head_dim = 0;  // d
  int rope_dim = 0;  // R: the last R channels of a head
  int q_lora_rank = 0;
  int o_lora_rank = 0;
  int o_groups = 0;
  int moe_intermediate = 0;
  int experts = 0;
  int experts_per_token = 0;
  int shared_experts = 1;
  double routed_scaling = 1.0;
  double gate_temperature = 1.0;
  double swiglu_limit = 10.0;
  double norm_eps = 1e-20;
  int hc_mult = 4;  // C: residual streams
  int hc_sinkhorn_iters = 20;
  double hc_eps = 1e-6;
  int window = 128;                  // W, the current token included
  std::vector<int> compress_ratios;  // layers + stages entries
  std::vector<int> kv_sources;
  std::vector<int> index_sources;
  int candidate_source = -1;  // -1 = none
  int candidate_blocks = 0;   // candidate_topk_blocks
  int candidate_block_size = 0;
  int index_heads = 0;
  int index_head_dim = 0;
  int index_topk = 0;
  RopeConfig rope;
  EngramConfig engram;
  DsparkConfig dspark;
  std::int64_t max_positions = 0;
  int bos_id = 0, eos_id = 1, pad_id = 2;
  int image_token_id = -1;             // what every position of an image span carries
  bool has_vision = false;             // a vision_config is present: vision.* tensors may exist and are skipped
  bool low_precision_weights = false;  // quantization_config fp8/fp4: linears apply Q8 to their input

  std::vector<LayerRole> roles;  // one per backbone layer

  int mix_width() const noexcept { return (2 + hc_mult) * hc_mult; }
  int streams_width() const noexcept { return hc_mult * hidden; }
  int q_width() const noexcept { return heads * head_dim; }
  int group_width() const noexcept { return heads * head_dim / o_groups; }

  // Parses and checks the text of a config.json; `where` names the file in errors (bad_format, bad_config naming the
  // key).
  static Result<ModelConfig> parse(std::string_view json, const std::string& where);
  // Reads `folder`/config.json.
  static Result<ModelConfig> load(const std::filesystem::path& folder);
};

// Returns the roles table; bad_config if a list is inconsistent (source without producer, ratio mismatch, order).
Result<std::vector<LayerRole>> derive_roles(const ModelConfig& config);

// Returns an error unless the model can be split over `ranks` (heads, o_groups, intermediate, vocab divisible; model
// spec 6).
Result<void> check_ranks(const ModelConfig& config, int ranks);

}  // namespace tandem::gpu
