// Counting the matrices of a step.
#include "gpu/cuda/bench/step_limit.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

namespace tandem::gpu::cuda::bench {
namespace {

constexpr const char* block_names[step_blocks] = {"attention", "residual", "router", "experts",
                                                  "shared",    "head",     "cache"};

class Count {
 public:
  Count(const CardLimits& card, StepLimit& limit) : card_(card), limit_(limit) {
    for (std::size_t i = 0; i < step_blocks; ++i) limit_.blocks[i].name = block_names[i];
  }
  void add(StepBlock block, const Linear& weight, double times = 1) {
    if (weight.empty()) return;
    limit_.blocks[block].bytes += times * bytes_of_weight(weight);
    limit_.blocks[block].seconds += times * card_.seconds(weight);
  }
  void add(StepBlock block, const PartialLinear& weight, double times = 1) {
    for (const Linear& slice : weight.slices) add(block, slice, times);
  }
  void add_bytes(StepBlock block, double bytes) {
    limit_.blocks[block].bytes += bytes;
    limit_.blocks[block].seconds += bytes / card_.copy;
  }

 private:
  const CardLimits& card_;
  StepLimit& limit_;
};

void add_attention(Count& count, const AttentionWeights& w) {
  for (const Linear* weight : {&w.wq_a, &w.wq_b, &w.wkv, &w.compressor.wkv, &w.compressor.wgate, &w.indexer.wq_b,
                               &w.indexer.weights_proj, &w.indexer.wk}) {
    count.add(attention_block, *weight);
  }
  for (const Linear& group : w.wo_a) count.add(attention_block, group);
  count.add(attention_block, w.wo_b);
}

void add_experts(Count& count, const MoeWeights& moe, int distinct) {
  count.add(router_block, moe.gate);
  const ExpertWeights& expert = moe.experts.front();
  count.add(experts_block, expert.w1, distinct);
  count.add(experts_block, expert.w3, distinct);
  count.add(experts_block, expert.w2, distinct);
  count.add(shared_block, moe.shared.w1);
  count.add(shared_block, moe.shared.w3);
  count.add(shared_block, moe.shared.w2);
}

// Window and chosen entries of each row; index keys once, since the rows are one sequence's.
void add_caches(Count& count, const Model& model, std::int32_t rows, std::int64_t length) {
  const ModelConfig& c = model.config;
  const auto window = static_cast<double>(std::min<std::int64_t>(length, c.window));
  const double window_record = record_bytes(RecordFormat::w8, c.head_dim);
  for (const LayerRole& role : c.roles) {
    count.add_bytes(cache_block, rows * window * window_record);
    if (role.ratio == 0) continue;
    const std::int64_t visible = length / role.ratio;
    const auto chosen = static_cast<double>(std::min<std::int64_t>(visible, c.index_topk));
    count.add_bytes(cache_block, rows * chosen * record_bytes(RecordFormat::n4, c.head_dim));
    if (!role.is_index_source()) continue;
    const double keys = role.uses_candidates
                            ? std::min(static_cast<double>(visible),
                                       static_cast<double>(rows) * c.candidate_blocks * c.candidate_block_size)
                            : static_cast<double>(visible);
    count.add_bytes(cache_block, keys * record_bytes(RecordFormat::x4, c.index_head_dim));
  }
}

}  // namespace

double StepLimit::bytes() const noexcept {
  return std::accumulate(blocks.begin(), blocks.end(), 0.0,
                         [](double sum, const BlockLimit& b) { return sum + b.bytes; });
}

double StepLimit::seconds() const noexcept {
  return std::accumulate(blocks.begin(), blocks.end(), 0.0,
                         [](double sum, const BlockLimit& b) { return sum + b.seconds; });
}

void ExpertCounter::record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>&) {
  constexpr std::string_view wanted = "router_expert";
  if (!name.ends_with(wanted)) return;
  std::set<std::int32_t> chosen;
  for (std::int64_t row = 0; row < value.rows; ++row) {
    const auto* ids = value.row<std::int32_t>(row);
    chosen.insert(ids, ids + value.cols);
  }
  distinct_.push_back(static_cast<int>(chosen.size()));
}

double ExpertCounter::mean() const noexcept {
  if (distinct_.empty()) return 0;
  return std::accumulate(distinct_.begin(), distinct_.end(), 0.0) / static_cast<double>(distinct_.size());
}

StepLimit limit_of_step(const Model& model, const CardLimits& card, std::int32_t rows, std::int64_t length,
                        const std::vector<int>& distinct) {
  StepLimit limit;
  Count count(card, limit);
  for (std::size_t layer = 0; layer < model.weights.layers.size(); ++layer) {
    const BlockWeights& block = model.weights.layers[layer];
    add_attention(count, block.attn);
    const double mix = static_cast<double>(block.hc_attn.fn.values.bytes + block.hc_ffn.fn.values.bytes);
    count.add_bytes(residual_block, mix);
    add_experts(count, block.moe, layer < distinct.size() ? distinct[layer] : 0);
  }
  count.add(head_block, model.weights.head);
  add_caches(count, model, rows, length);
  return limit;
}

}  // namespace tandem::gpu::cuda::bench
