// Attention over the row's own window and the selected entries of the shared compressed KV; one KV head, keys are
// values.
//
// All rows of a step write their window entries and compressed entries before any row attends: a row sees what itself
// and earlier rows completed, and its limits (window, visible entries) follow from its own position, never from the
// batch.
#include <algorithm>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {
namespace {

std::vector<RecordRing> window_rings(const StepContext& step, int layer) {
  std::vector<RecordRing> rings;
  rings.reserve(static_cast<std::size_t>(step.row_count()));
  for (std::int32_t row = 0; row < step.rows.rows(); ++row) rings.push_back(step.rows.sequence(row).window(layer));
  return rings;
}

void show_window(const StepContext& step, std::span<const RecordRing> rings) {
  if (step.probe == nullptr || rings.empty()) return;
  std::vector<const std::byte*> places;
  for (std::int32_t row = 0; row < step.rows.rows(); ++row) {
    places.push_back(rings[static_cast<std::size_t>(row)].at(step.rows.position(row)));
  }
  step.show_records("win_kv", rings.front().format, rings.front().n, places);
}

std::vector<AttentionRow> attention_rows(const StepContext& step, const LayerRole& role,
                                         std::span<const RecordRing> rings, const Selection& selection) {
  std::vector<AttentionRow> rows(rings.size());
  for (std::int32_t r = 0; r < step.rows.rows(); ++r) {
    AttentionRow& row = rows[static_cast<std::size_t>(r)];
    row.window = rings[static_cast<std::size_t>(r)];
    row.window_last = step.rows.position(r);
    row.window_first = std::max<std::int64_t>(0, row.window_last - step.config().window + 1);
    if (role.kv_source < 0) continue;
    row.compressed = step.rows.sequence(r).entries(role.kv_source);
    row.selected = selection.selected.row<std::int32_t>(r);
    row.selected_count = static_cast<std::int32_t>(selection.selected.cols);
  }
  return rows;
}

}  // namespace

Tensor low_rank_query(const StepContext& step, const AttentionSite& site, const Tensor& input) {
  const AttentionWeights& w = site.weights;
  const Tensor result = step.workspace.f32(input.rows, w.wq_a.n);
  const Workspace::Scope scope(step.workspace);
  const Tensor product = step.workspace.f32(input.rows, w.wq_a.n);
  step.ops().linear(input, w.wq_a, step.mode(w.wq_a), product);
  step.ops().rmsnorm(product, w.q_norm, step.config().norm_eps, step.rounds(), result);
  step.show("qr", result, {result.rows, result.cols});
  return result;
}

Tensor rotated_query(const StepContext& step, const AttentionSite& site, const Tensor& low_rank) {
  const Linear& wq_b = site.weights.wq_b;
  const int head_dim = step.config().head_dim;
  const int heads = static_cast<int>(wq_b.n / head_dim);
  const Tensor query = step.workspace.f32(low_rank.rows, wq_b.n);
  step.ops().linear(low_rank, wq_b, step.mode(wq_b), query);
  step.ops().rope(query, heads, step.rows.positions(), site.rope, false, step.rounds());
  step.show("q_rot", query, {query.rows, heads, head_dim});
  return query;
}

// May run beside other operations, so its tensors are kept until the caller's scope ends.
void store_window(const StepContext& step, const AttentionSite& site, const Tensor& input) {
  const AttentionWeights& w = site.weights;
  const Tensor product = step.workspace.f32(input.rows, w.wkv.n);
  const Tensor normed = step.workspace.f32(input.rows, w.wkv.n);
  step.ops().linear(input, w.wkv, step.mode(w.wkv), product);
  step.ops().rmsnorm(product, w.kv_norm, step.config().norm_eps, step.rounds(), normed);
  step.ops().rope(normed, 1, step.rows.positions(), site.rope, false, step.rounds());
  step.show("win_kv_pre_w8", normed, {normed.rows, normed.cols});
  step.ops().write_window(normed, site.rings, step.rows.positions());
  show_window(step, site.rings);
}

Result<Tensor> attend(const StepContext& step, const AttentionSite& site, const Tensor& query,
                      std::span<const AttentionRow> rows) {
  const AttentionWeights& w = site.weights;
  const int head_dim = step.config().head_dim;
  const int heads = static_cast<int>(query.cols / head_dim);
  const Tensor out = step.workspace.f32(query.rows, query.cols);
  step.ops().attention({query, rows, w.sink.data(), heads, head_dim, step.rounds(), out});
  step.show("attn_o", out, {out.rows, heads, head_dim});
  step.ops().rope(out, heads, step.rows.positions(), site.rope, true, step.rounds());

  // (A7) Each group of heads has its own low-rank matrix; Q8 never applies to it: the reference dequantises wo_a.
  const std::int64_t group_width = step.config().group_width();
  const Tensor low_rank = step.workspace.f32(query.rows, w.wo_b.k_local);
  std::int64_t column = 0;
  std::vector<LinearCall> groups;
  for (const Linear& wo_a : w.wo_a) {
    const auto first = static_cast<std::int64_t>(groups.size()) * group_width;
    groups.push_back(
        {out.slice_cols(first, group_width), &wo_a, {false, step.rounds()}, low_rank.slice_cols(column, wo_a.n)});
    column += wo_a.n;
  }
  step.ops().linears(groups);
  const auto slices = static_cast<std::int64_t>(w.wo_b.slices.size());
  const Tensor partials = step.workspace.f32(slices * query.rows, w.wo_b.n);
  step.ops().partial_linear(low_rank, w.wo_b, step.mode(w.wo_b.slices.front()), partials);
  return sum_partials(step, partials);
}

Result<Tensor> backbone_attention(const StepContext& step, int layer, const Tensor& input, Selection& selection,
                                  bool entries_stored) {
  const LayerRole& role = step.config().roles[static_cast<std::size_t>(layer)];
  const AttentionWeights& weights = step.model.weights.layers[static_cast<std::size_t>(layer)].attn;
  const std::vector<RecordRing> rings = window_rings(step, layer);
  const AttentionSite site{weights, step.model.rope_of(role), rings};

  // Keys do not need the queries: they are written beside them.
  step.ops().beside(Ops::Side::branch, [&] { store_window(step, site, input); });
  const Tensor low_rank = low_rank_query(step, site, input);
  const Tensor query = rotated_query(step, site, low_rank);
  step.ops().join(Ops::Side::branch);
  if (role.is_kv_source() && !entries_stored) {
    Latents latents = compress(step, layer, input);
    store_index_keys(step, layer, latents);
    store_entries(step, layer, latents);
  }
  if (role.is_index_source()) select_entries(step, layer, input, low_rank, selection);
  return attend(step, site, query, attention_rows(step, role, rings, selection));
}

}  // namespace tandem::gpu
