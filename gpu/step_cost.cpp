// Counts the matrices that one token passes through, layer by layer, as the forward pass does.
#include "gpu/step_cost.hpp"

namespace tandem::gpu {

namespace {

constexpr double bytes_fp8 = 1.0 + 1.0 / 1024;  // a scale byte a 32x32 block
constexpr double bytes_fp4 = 0.5 + 1.0 / 32;    // a scale byte 32 columns
constexpr double bytes_bf16 = 2;
constexpr double bytes_f32 = 4;

class Sum {
 public:
  void add(double n, double k, double bytes_per_weight) {
    cost_.flops += 2 * n * k;
    cost_.weight_bytes += n * k * bytes_per_weight;
  }
  StepCost cost() const { return cost_; }

 private:
  StepCost cost_;
};

void add_attention(Sum& sum, const ModelConfig& c, const LayerRole& role) {
  const bool low = c.low_precision_weights;
  const double dense = low ? bytes_fp8 : bytes_bf16;
  sum.add(c.q_lora_rank, c.hidden, dense);
  sum.add(c.q_width(), c.q_lora_rank, dense);
  sum.add(c.head_dim, c.hidden, dense);
  sum.add(static_cast<double>(c.o_groups) * c.o_lora_rank, c.group_width(), dense);
  sum.add(c.hidden, static_cast<double>(c.o_groups) * c.o_lora_rank, dense);
  if (role.is_kv_source()) {
    sum.add(c.head_dim, c.hidden, bytes_bf16);
    if (role.ratio == 2) sum.add(c.head_dim, c.hidden, bytes_bf16);
  }
  if (!role.is_index_source()) return;
  sum.add(static_cast<double>(c.index_heads) * c.index_head_dim, c.q_lora_rank, dense);
  sum.add(c.index_heads, c.hidden, bytes_bf16);
  if (role.index_keys == role.layer) sum.add(c.index_head_dim, c.head_dim, bytes_bf16);
}

void add_moe(Sum& sum, const ModelConfig& c) {
  const double routed = c.low_precision_weights ? bytes_fp4 : bytes_bf16;
  const double shared = c.low_precision_weights ? bytes_fp8 : bytes_bf16;
  sum.add(c.experts, c.hidden, bytes_bf16);
  sum.add(3.0 * c.moe_intermediate * c.experts_per_token, c.hidden, routed);
  sum.add(3.0 * c.moe_intermediate * c.shared_experts, c.hidden, shared);
}

}  // namespace

StepCost cost_of_token(const ModelConfig& config) {
  Sum sum;
  for (const LayerRole& role : config.roles) {
    sum.add(2.0 * config.mix_width(), config.streams_width(), bytes_f32);
    add_attention(sum, config, role);
    add_moe(sum, config);
    if (role.has_engram)
      sum.add((config.hc_mult + 1.0) * config.hidden, config.engram.row_width(),
              config.low_precision_weights ? bytes_fp8 : bytes_bf16);
  }
  sum.add(config.vocab_size, config.hidden, bytes_bf16);
  return sum.cost();
}

}  // namespace tandem::gpu
