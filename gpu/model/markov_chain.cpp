// Markov chain over the drafts, split over ranks by vocabulary rows.
#include "gpu/model/markov_chain.hpp"

#include <algorithm>

namespace tandem::gpu {
namespace {

// The best token of one lane among the vocabulary rows of one rank.
struct Best {
  float logit = 0;
  std::int32_t id = 0;
};

// Keeps the best of all ranks for every lane; the first of equals has the lowest id, ranks being in vocabulary order.
Result<void> exchange(Communicator& communicator, std::vector<Best>& best) {
  if (communicator.size() == 1) return {};
  std::vector<Best> all(best.size() * static_cast<std::size_t>(communicator.size()));
  const auto ok = communicator.all_gather(std::as_bytes(std::span(best)), std::as_writable_bytes(std::span(all)));
  if (!ok) return ok;
  for (std::size_t lane = 0; lane < best.size(); ++lane) {
    best[lane] = all[lane];
    for (std::size_t at = lane; at < all.size(); at += best.size()) {
      if (all[at].logit > best[lane].logit) best[lane] = all[at];
    }
  }
  return {};
}

// Rows i, i + block, i + 2 block, ..: position i of every lane's block.
Tensor chain_rows(const Tensor& blocks, std::int64_t lanes, std::int64_t block_size, std::int64_t i) {
  Tensor rows = blocks.slice_rows(i, lanes);
  rows.stride = blocks.stride * block_size;
  return rows;
}

float confidence_of(const DenseF32& weights, const float* hidden, std::int64_t hidden_size,
                    std::span<const float> embedded) {
  const float* w = weights.data();
  double sum = 0;
  for (std::int64_t i = 0; i < hidden_size; ++i) sum += static_cast<double>(w[i]) * hidden[i];
  for (std::size_t i = 0; i < embedded.size(); ++i) {
    sum += static_cast<double>(w[static_cast<std::size_t>(hidden_size) + i]) * embedded[i];
  }
  return static_cast<float>(sum);
}

}  // namespace

Result<std::vector<Draft>> chain_drafts(const StepContext& step, const DraftBlock& block,
                                        std::span<const DraftLane> lanes) {
  const DsparkWeights& weights = step.model.weights.dspark;
  const auto count = static_cast<std::int64_t>(lanes.size());
  const int block_size = step.config().dspark.block_size;
  const std::int64_t local = weights.markov_head.n;
  const std::int64_t first_id = local * step.model.communicator->rank();
  const Tensor embedded = step.workspace.f32(count, weights.markov_embed.k);
  const Tensor bias = step.workspace.f32(count, local);
  const Tensor biased = step.workspace.f32(count * block_size, local);

  std::vector<Draft> drafts(lanes.size());
  std::vector<std::int32_t> previous;
  int longest = 0;
  for (const DraftLane& lane : lanes) {
    previous.push_back(lane.anchor);
    longest = std::max(longest, std::min(lane.count, block_size));
  }
  std::vector<Best> best(lanes.size());
  std::vector<BestColumn> columns(lanes.size());
  Memory& memory = step.ops().memory();
  Buffer hidden_copy, embedded_copy;
  const auto hidden =
      weights.confidence.empty() ? Result<Tensor>(Tensor{}) : on_host(memory, block.hidden, hidden_copy);
  if (!hidden) return hidden.error();
  for (int i = 0; i < longest; ++i) {
    step.ops().gather_rows(weights.markov_embed, previous, embedded);
    step.ops().linear(embedded, weights.markov_head, {step.mode(weights.markov_head).q8, false}, bias);
    const Tensor base = chain_rows(block.base_logits, count, block_size, i).slice_cols(first_id, local);
    const Tensor sums = chain_rows(biased, count, block_size, i);
    if (auto ok = step.ops().best_of_sum(base, bias, sums, columns); !ok) return ok.error();
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      best[lane] = {columns[lane].value, static_cast<std::int32_t>(first_id) + columns[lane].column};
    }
    if (auto ok = exchange(*step.model.communicator, best); !ok) return ok.error();
    const auto entered =
        weights.confidence.empty() ? Result<Tensor>(Tensor{}) : on_host(memory, embedded, embedded_copy);
    if (!entered) return entered.error();
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      previous[lane] = best[lane].id;
      if (i >= lanes[lane].count) continue;
      drafts[lane].tokens.push_back(best[lane].id);
      if (weights.confidence.empty()) continue;
      const auto at = static_cast<std::int64_t>(lane);
      drafts[lane].confidence.push_back(
          confidence_of(weights.confidence, hidden->row<float>(at * block_size + i), hidden->cols,
                        {entered->row<float>(at), static_cast<std::size_t>(entered->cols)}));
    }
  }
  if (longest == block_size) step.show("logits", biased, {biased.rows, biased.cols});
  return drafts;
}

}  // namespace tandem::gpu
