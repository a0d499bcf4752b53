// The indexer: which compressed entries a row attends to.
//
// Scores use the *owner's* key cache of the row's own sequence and only entries that are complete for the row's
// position. Ties go to the lower entry number, in prefill and decode alike.
#include <algorithm>
#include <bit>
#include <cmath>

#include "gpu/model/blocks.hpp"
#include "gpu/model/index_views.hpp"

namespace tandem::gpu {
namespace {

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

}  // namespace

Selection make_selection(const StepContext& step) {
  const ModelConfig& config = step.config();
  Selection selection;
  selection.selected = step.workspace.i32(step.row_count(), std::max(config.index_topk, 1));
  if (config.candidate_source < 0 || config.candidate_block_size <= 0 || step.row_count() == 0) return selection;
  const auto& positions = step.rows.positions();
  const std::int64_t entries = *std::max_element(positions.begin(), positions.end()) + 1;
  const std::int64_t blocks = (entries + config.candidate_block_size - 1) / config.candidate_block_size;
  // A power of two: shapes, and with them what a backend keeps for the next step, change rarely as sequences grow.
  const auto words = std::bit_ceil(static_cast<std::uint64_t>((blocks + 63) / 64));
  selection.candidates = step.workspace.i64(step.row_count(), static_cast<std::int64_t>(words));
  step.ops().clear(selection.candidates);
  return selection;
}

void store_index_keys(const StepContext& step, int layer, const Latents& latents) {
  const IndexerWeights& w = step.model.weights.layers[static_cast<std::size_t>(layer)].attn.indexer;
  if (w.wk.empty()) return;
  if (latents.entries.empty()) {
    for (const char* site : {"ik_pre_x4", "ik"}) step.show(site, Tensor::f32(nullptr, 0, w.wk.n), {0, w.wk.n});
    return;
  }
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
  const IndexCall call{queries,
                       weights,
                       rows,
                       config.index_heads,
                       config.index_head_dim,
                       config.index_topk,
                       config.candidate_block_size,
                       config.candidate_blocks};
  step.ops().index_select(call);
  show_index_scores(step, role, call);
  show_selection(step, role, selection);
}

}  // namespace tandem::gpu
