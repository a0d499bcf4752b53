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
  // `times` such matrices, each for `rows` rows.
  void add(StepBlock block, const Linear& weight, double rows, double times = 1) {
    if (weight.empty() || times == 0) return;
    limit_.blocks[block].bytes += times * bytes_of_weight(weight);
    limit_.blocks[block].seconds += times * card_.seconds(weight, rows);
  }
  void add(StepBlock block, const PartialLinear& weight, double rows, double times = 1) {
    for (const Linear& slice : weight.slices) add(block, slice, rows, times);
  }
  void add_bytes(StepBlock block, double bytes) { add_keys(block, bytes, 0); }
  // Keys that take so many operations with their queries.
  void add_keys(StepBlock block, double bytes, double operations) {
    limit_.blocks[block].bytes += bytes;
    const double multiplying = card_.multiply == 0 ? 0 : operations / card_.multiply;
    limit_.blocks[block].seconds += std::max(bytes / card_.copy, multiplying);
  }

 private:
  const CardLimits& card_;
  StepLimit& limit_;
};

void add_attention(Count& count, const AttentionWeights& w, double rows) {
  for (const Linear* weight : {&w.wq_a, &w.wq_b, &w.wkv, &w.compressor.wkv, &w.compressor.wgate, &w.indexer.wq_b,
                               &w.indexer.weights_proj, &w.indexer.wk}) {
    count.add(attention_block, *weight, rows);
  }
  for (const Linear& group : w.wo_a) count.add(attention_block, group, rows);
  count.add(attention_block, w.wo_b, rows);
}

// `uses`: of experts, by all rows.
void add_experts(Count& count, const MoeWeights& moe, double rows, double uses, int distinct) {
  count.add(router_block, moe.gate, rows);
  const ExpertWeights& expert = moe.experts.front();
  const double rows_of_expert = distinct == 0 ? 0 : uses / distinct;
  count.add(experts_block, expert.w1, rows_of_expert, distinct);
  count.add(experts_block, expert.w3, rows_of_expert, distinct);
  count.add(experts_block, expert.w2, rows_of_expert, distinct);
  count.add(shared_block, moe.shared.w1, rows);
  count.add(shared_block, moe.shared.w3, rows);
  count.add(shared_block, moe.shared.w2, rows);
}

// Window and chosen entries of each row, multiplied with its queries and summed; index keys are read once, since the
// rows are one sequence's, and multiplied with the queries of each.
void add_caches(Count& count, const Model& model, const StepShape& shape, std::size_t layers) {
  const ModelConfig& c = model.config;
  const double rows = shape.rows;
  const auto window = static_cast<double>(std::min<std::int64_t>(shape.length, c.window));
  const double window_record = record_bytes(RecordFormat::w8, c.head_dim);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const LayerRole& role = c.roles[layer];
    const AttentionWeights& weights = model.weights.layers[layer].attn;
    const double operations_of_key = 4 * rows * static_cast<double>(weights.wq_b.n);
    count.add_keys(cache_block, rows * window * window_record, window * operations_of_key);
    if (role.ratio == 0) continue;
    const std::int64_t visible = shape.length / role.ratio;
    const auto chosen = static_cast<double>(std::min<std::int64_t>(visible, c.index_topk));
    count.add_keys(cache_block, rows * chosen * record_bytes(RecordFormat::n4, c.head_dim), chosen * operations_of_key);
    if (!role.is_index_source()) continue;
    const double positions = static_cast<double>(shape.length);
    const double keys = std::min(static_cast<double>(visible), rows * index_keys_of_row(c, role, positions));
    count.add_keys(
        cache_block, keys * record_bytes(RecordFormat::x4, c.index_head_dim),
        2 * rows * index_keys_of_row(c, role, positions - rows / 2) * static_cast<double>(weights.indexer.wq_b.n));
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

double index_keys_of_row(const ModelConfig& config, const LayerRole& role, double positions) {
  if (!role.is_index_source()) return 0;
  const double visible = positions / role.ratio;
  return role.uses_candidates ? std::min<double>(visible, config.candidate_blocks * config.candidate_block_size)
                              : visible;
}

StepLimit limit_of_step(const Model& model, const CardLimits& card, const StepShape& shape) {
  StepLimit limit;
  Count count(card, limit);
  const double rows = shape.rows, uses = rows * model.config.experts_per_token;
  const std::size_t layers = std::min(model.weights.layers.size(), shape.distinct.size());
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const BlockWeights& block = model.weights.layers[layer];
    add_attention(count, block.attn, rows);
    const double mix = static_cast<double>(block.hc_attn.fn.values.bytes + block.hc_ffn.fn.values.bytes);
    count.add_bytes(residual_block, mix);
    add_experts(count, block.moe, rows, uses, shape.distinct[layer]);
  }
  if (shape.head_rows > 0) count.add(head_block, model.weights.head, shape.head_rows);
  add_caches(count, model, shape, layers);
  return limit;
}

}  // namespace tandem::gpu::cuda::bench
