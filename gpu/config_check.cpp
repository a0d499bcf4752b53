// What must hold between fields: block sizes of the quantisers, divisibility of heads and groups, lists of equal
// length; and over how many ranks the matrices can be cut.
#include "gpu/config_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace tandem::gpu {
namespace {

// Every scale covers 32 channels, so whatever is an input of a quantised matrix or of a quantiser comes in multiples of
// it.
constexpr int scale_block = 32;
// A matrix that is cut along K is kept in two halves, each in whole scale blocks.
constexpr int two_blocks = 2 * scale_block;

struct Rule {
  bool holds;
  const char* key;
  std::string found;
  const char* expected;
};

bool is_ascending(const std::vector<int>& list) {
  return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
}

Result<void> first_broken(std::initializer_list<Rule> rules, const std::string& where) {
  for (const Rule& rule : rules) {
    if (!rule.holds)
      return Error{ErrorCode::bad_config, where + ": text_config." + rule.key, rule.found, rule.expected};
  }
  return {};
}

Result<void> check_dimensions(const ModelConfig& c, const std::string& where) {
  const auto text = [](int value) { return std::to_string(value); };
  return first_broken(
      {{c.hidden % scale_block == 0, "hidden_size", text(c.hidden), "a multiple of 32"},
       {c.head_dim % scale_block == 0, "head_dim", text(c.head_dim), "a multiple of 32"},
       {c.rope_dim % 2 == 0 && c.rope_dim < c.head_dim, "qk_rope_head_dim", text(c.rope_dim),
        "even and below head_dim"},
       {c.q_lora_rank % scale_block == 0, "q_lora_rank", text(c.q_lora_rank), "a multiple of 32"},
       {c.o_lora_rank % scale_block == 0, "o_lora_rank", text(c.o_lora_rank), "a multiple of 32"},
       {c.heads % c.o_groups == 0, "o_groups", text(c.o_groups), "a divisor of num_attention_heads"},
       {c.o_groups * c.o_lora_rank % two_blocks == 0, "o_lora_rank", text(c.o_lora_rank),
        "o_groups * o_lora_rank a multiple of 64 (two K halves of whole 32-blocks)"},
       {c.moe_intermediate % two_blocks == 0, "moe_intermediate_size", text(c.moe_intermediate),
        "a multiple of 64 (two K halves of whole 32-blocks)"},
       {c.experts_per_token <= c.experts, "num_experts_per_tok", text(c.experts_per_token), "at most n_routed_experts"},
       {c.index_head_dim % scale_block == 0 && c.index_head_dim >= c.rope_dim, "index_head_dim", text(c.index_head_dim),
        "a multiple of 32, at least qk_rope_head_dim"}},
      where);
}

Result<void> check_engram(const EngramConfig& engram, const std::string& where) {
  if (engram.layers.empty()) return {};
  return first_broken(
      {{is_ascending(engram.layers), "engram_layer_ids", "not ascending", "ascending layers without repetition"},
       {engram.rows.size() == engram.layers.size(), "engram_num_embeddings",
        fmt::format("{} entries", engram.rows.size()), "one entry for every engram_layer_ids"},
       {engram.head_dim % scale_block == 0, "engram_head_dim", std::to_string(engram.head_dim), "a multiple of 32"}},
      where);
}

Result<void> check_dspark(const ModelConfig& c, const std::string& where) {
  const DsparkConfig& dspark = c.dspark;
  const std::size_t ratios = static_cast<std::size_t>(c.layers) + static_cast<std::size_t>(dspark.stages);
  const bool length_fits = c.compress_ratios.size() == ratios;
  const bool stages_are_plain = length_fits && std::all_of(c.compress_ratios.begin() + c.layers,
                                                           c.compress_ratios.end(), [](int r) { return r == 0; });
  if (auto lists = first_broken(
          {{length_fits, "compress_ratios", fmt::format("{} entries", c.compress_ratios.size()),
            "one entry for every backbone layer and draft stage"},
           {stages_are_plain, "compress_ratios", "a draft stage with a ratio above 0", "0 for every draft stage"}},
          where);
      !lists || dspark.stages == 0) {
    return lists;
  }
  return first_broken(
      {{!dspark.target_layers.empty() && is_ascending(dspark.target_layers), "dspark_target_layer_ids",
        dspark.target_layers.empty() ? "an empty list" : "not ascending", "ascending layers without repetition"},
       {dspark.markov_rank % scale_block == 0, "dspark_markov_rank", std::to_string(dspark.markov_rank),
        "a multiple of 32"},
       {dspark.experts_per_token <= dspark.experts, "dspark_num_experts_per_tok",
        std::to_string(dspark.experts_per_token), "at most dspark_n_routed_experts"}},
      where);
}

}  // namespace

Result<void> check_relations(const ModelConfig& config, const std::string& where) {
  if (auto result = check_dimensions(config, where); !result) return result;
  if (auto result = check_engram(config.engram, where); !result) return result;
  return check_dspark(config, where);
}

Result<void> check_ranks(const ModelConfig& config, int ranks) {
  if (ranks < 1) return Error{ErrorCode::invalid_argument, "ranks", std::to_string(ranks), "at least 1"};
  struct Cut {
    const char* key;
    int size;
    int unit;  // every rank gets a whole number of these
  };
  const int slices = std::max(ranks, 2);  // a matrix that is cut along K always has at least two slices
  for (const Cut& cut : {Cut{"num_attention_heads", config.heads, ranks}, Cut{"o_groups", config.o_groups, ranks},
                         Cut{"vocab_size", config.vocab_size, ranks},
                         Cut{"moe_intermediate_size", config.moe_intermediate, slices * scale_block},
                         Cut{"o_groups * o_lora_rank", config.o_groups * config.o_lora_rank, slices * scale_block}}) {
    if (cut.size % cut.unit == 0) continue;
    return Error{ErrorCode::bad_config, fmt::format("{} over {} ranks", cut.key, ranks), std::to_string(cut.size),
                 fmt::format("a multiple of {}", cut.unit)};
  }
  return {};
}

}  // namespace tandem::gpu
