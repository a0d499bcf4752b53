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

// (I2) Queries qr wq_b^T, to be rotated and quantised in place.
RowFinish index_queries(const StepContext& step, const IndexerWeights& w, const Tensor& low_rank,
                        const RopeView& rope) {
  RowFinish queries;
  queries.x = step.workspace.f32(low_rank.rows, w.wq_b.n);
  queries.y = queries.x;
  queries.norm.round = step.rounds();
  queries.heads = step.config().index_heads;
  queries.positions = step.rows.positions();
  queries.rope = rope;
  queries.quantises_x4 = step.model.numerics.kv_quantisers;
  step.ops().linear(low_rank, w.wq_b, step.mode(w.wq_b), queries.x);
  return queries;
}

// (I3) w = (a weights_proj^T) * index_head_dim^-0.5 * index_heads^-0.5.
RowFinish head_weights(const StepContext& step, const IndexerWeights& w, const Tensor& input) {
  const ModelConfig& config = step.config();
  RowFinish weights;
  weights.x = step.workspace.f32(input.rows, w.weights_proj.n);
  weights.y = weights.x;
  weights.norm.round = step.rounds();
  weights.factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.index_head_dim) * config.index_heads));
  step.ops().linear(input, w.weights_proj, step.mode(w.weights_proj), weights.x);
  step.show("iw_raw", weights.x, {weights.x.rows, weights.x.cols});
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

void select_entries(const StepContext& step, int layer, const Tensor& input, const Tensor& low_rank,
                    Selection& selection) {
  const ModelConfig& config = step.config();
  const LayerRole& role = config.roles[static_cast<std::size_t>(layer)];
  const IndexerWeights& w = step.model.weights.layers[static_cast<std::size_t>(layer)].attn.indexer;
  const Workspace::Scope scope(step.workspace);
  const RowFinish finishes[] = {index_queries(step, w, low_rank, step.model.rope_of(role)),
                                head_weights(step, w, input)};
  step.ops().finish_rows(finishes);
  const Tensor &queries = finishes[0].y, &weights = finishes[1].y;
  step.show("iq", queries, {queries.rows, config.index_heads, config.index_head_dim});
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
