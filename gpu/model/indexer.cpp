// The indexer: which compressed entries a row attends to.
//
// Scores use the *owner's* key cache of the row's own sequence and only entries that are complete for the row's
// position. Ties go to the lower entry number, in prefill and decode alike.
#include <algorithm>
#include <cmath>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {
namespace {

// Visible entries of position p: n_c(p) = floor((p + 1) / ratio).
std::int32_t visible_entries(std::int64_t position, int ratio) {
  return static_cast<std::int32_t>((position + 1) / ratio);
}

Tensor index_queries(const StepContext& step, const IndexerWeights& w, const Tensor& low_rank, const RopeView& rope) {
  const ModelConfig& config = step.config();
  const Tensor queries = step.workspace.f32(low_rank.rows, w.wq_b.n);
  step.ops().linear(low_rank, w.wq_b, step.mode(w.wq_b), queries);
  step.ops().rope(queries, config.index_heads, step.rows.positions(), rope, false, step.rounds());
  if (step.model.numerics.kv_quantisers) step.ops().quantise_x4(queries);
  step.show("iq", queries, {queries.rows, config.index_heads, config.index_head_dim});
  return queries;
}

// (I3) w = (a weights_proj^T) * index_head_dim^-0.5 * index_heads^-0.5.
Tensor head_weights(const StepContext& step, const IndexerWeights& w, const Tensor& input) {
  const ModelConfig& config = step.config();
  const Tensor weights = step.workspace.f32(input.rows, w.weights_proj.n);
  step.ops().linear(input, w.weights_proj, step.mode(w.weights_proj), weights);
  step.show("iw_raw", weights, {weights.rows, weights.cols});
  const auto scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.index_head_dim) * config.index_heads));
  step.ops().scale(weights, scale, step.rounds());
  return weights;
}

std::vector<IndexRow> index_rows(const StepContext& step, const LayerRole& role, Selection& selection) {
  std::vector<IndexRow> rows(static_cast<std::size_t>(step.row_count()));
  for (std::int32_t r = 0; r < step.rows.rows(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    auto* mask = selection.candidates.empty() ? nullptr : selection.candidates.row<std::uint64_t>(r);
    rows[i].keys = step.rows.sequence(r).index_keys(role.index_keys);
    rows[i].visible = visible_entries(step.rows.position(r), role.ratio);
    rows[i].candidate_mask = role.uses_candidates ? mask : nullptr;
    rows[i].publish_mask = role.publishes_candidates ? mask : nullptr;
    rows[i].selected = selection.selected.row<std::int32_t>(r);
  }
  return rows;
}

// Shows CAND as one byte for every entry of a kept block, as the golden files have it.
void show_candidates(const StepContext& step, std::int32_t entries, const Tensor& candidates) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(candidates.rows) * static_cast<std::size_t>(entries));
  auto* out = mask.data();
  for (std::int64_t r = 0; r < candidates.rows; ++r) {
    const auto* words = candidates.row<std::uint64_t>(r);
    for (std::int32_t entry = 0; entry < entries; ++entry) {
      const std::int32_t block = entry / step.config().candidate_block_size;
      *out++ = (words[block / 64] >> (block % 64) & 1U) != 0 ? 1 : 0;
    }
  }
  const Tensor shown{mask.data(), DType::u8, candidates.rows, entries, entries};
  step.probe->record(step.scope + "cand", shown, {candidates.rows, entries});
}

// Shows SEL in ascending order with -1 behind, and CAND.
void show_selection(const StepContext& step, const LayerRole& role, const Selection& selection) {
  if (step.probe == nullptr) return;
  Buffer selected_copy, candidates_copy;
  const auto selected = on_host(step.ops().memory(), selection.selected, selected_copy);
  const auto candidates = on_host(step.ops().memory(), selection.candidates, candidates_copy);
  if (!selected || !candidates) return;
  const std::int64_t topk = selected->cols;
  std::vector<std::int32_t> sorted(static_cast<std::size_t>(selected->rows * topk));
  for (std::int64_t r = 0; r < selected->rows; ++r) {
    const auto* chosen = selected->row<std::int32_t>(r);
    std::int32_t* out = sorted.data() + r * topk;
    std::copy(chosen, chosen + topk, out);
    std::sort(out, std::find(out, out + topk, -1));
  }
  step.probe->record(step.scope + "sel", Tensor::i32(sorted.data(), selected->rows, topk), {selected->rows, topk});
  if (!role.publishes_candidates) return;
  show_candidates(step, visible_entries(step.rows.positions().back(), role.ratio), *candidates);
}

}  // namespace

Selection make_selection(const StepContext& step) {
  const ModelConfig& config = step.config();
  Selection selection;
  selection.selected = step.workspace.i32(step.row_count(), std::max(config.index_topk, 1));
  if (config.candidate_source < 0 || config.candidate_block_size <= 0 || step.row_count() == 0) return selection;
  const auto& positions = step.rows.positions();
  const std::int64_t entries = *std::max_element(positions.begin(), positions.end()) + 1;
  const std::int64_t blocks = (entries + config.candidate_block_size - 1) / config.candidate_block_size;
  selection.candidates = step.workspace.i64(step.row_count(), (blocks + 63) / 64);
  step.ops().clear(selection.candidates);
  return selection;
}

void store_index_keys(const StepContext& step, int layer, const Latents& latents) {
  const IndexerWeights& w = step.model.weights.layers[static_cast<std::size_t>(layer)].attn.indexer;
  if (w.wk.empty() || latents.entries.empty()) return;
  const LayerRole& role = step.config().roles[static_cast<std::size_t>(layer)];
  const Workspace::Scope scope(step.workspace);
  const Tensor product = step.workspace.f32(latents.values.rows, w.wk.n);
  const Tensor keys = step.workspace.f32(latents.values.rows, w.wk.n);
  step.ops().linear(latents.values, w.wk, step.mode(w.wk), product);
  step.ops().rmsnorm(product, w.k_norm, step.config().norm_eps, step.rounds(), keys);
  step.ops().rope(keys, 1, latents.positions, step.model.rope_of(role), false, step.rounds());
  step.show("ik_pre_x4", keys, {keys.rows, keys.cols});
  std::vector<PagedRecords> caches;
  caches.reserve(latents.sequences.size());
  for (const SequenceState* sequence : latents.sequences) caches.push_back(sequence->index_keys(layer));
  step.ops().write_entries(keys, caches, latents.entries);
  show_entries(step, "ik", caches, latents.entries);
}

void select_entries(const StepContext& step, int layer, const Tensor& input, const Tensor& low_rank,
                    Selection& selection) {
  const ModelConfig& config = step.config();
  const LayerRole& role = config.roles[static_cast<std::size_t>(layer)];
  const IndexerWeights& w = step.model.weights.layers[static_cast<std::size_t>(layer)].attn.indexer;
  const Workspace::Scope scope(step.workspace);
  const Tensor queries = index_queries(step, w, low_rank, step.model.rope_of(role));
  const Tensor weights = head_weights(step, w, input);
  const std::vector<IndexRow> rows = index_rows(step, role, selection);
  step.ops().index_select({queries, weights, rows, config.index_heads, config.index_head_dim, config.index_topk,
                           config.candidate_block_size, config.candidate_blocks});
  show_selection(step, role, selection);
}

}  // namespace tandem::gpu
