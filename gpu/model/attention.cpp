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

// What makes window entries of the rows of a product with wkv.
RowFinish window_entries(const StepContext& step, const AttentionSite& site, const Tensor& product) {
  RowFinish finish;
  finish.x = product;
  finish.norm = {&site.weights.kv_norm, step.config().norm_eps, step.rounds()};
  finish.y = step.workspace.f32(product.rows, product.cols);
  finish.positions = step.rows.positions();
  finish.rope = site.rope;
  finish.rings = site.rings;
  return finish;
}

void show_entries(const StepContext& step, const AttentionSite& site, const Tensor& stored) {
  step.show("win_kv_pre_w8", stored, {stored.rows, stored.cols});
  show_window(step, site.rings);
}

// (A4)-(A6) Rotation, attention, rotation back. A probe wants to see the rows in between.
void attend_rotated(const StepContext& step, const AttentionCall& call, const RopeView& rope) {
  const AttentionAngles angles{step.rows.positions(), rope};
  if (step.probe == nullptr) return step.ops().rotated_attention(call, angles);
  step.ops().rope(call.q, call.heads, angles.positions, rope, false, call.bf16);
  step.show("q_rot", call.q, {call.q.rows, call.heads, call.head_dim});
  step.ops().attention(call);
  step.show("attn_o", call.out, {call.out.rows, call.heads, call.head_dim});
  step.ops().rope(call.out, call.heads, angles.positions, rope, true, call.bf16);
}

}  // namespace

void store_window(const StepContext& step, const AttentionSite& site, const Tensor& input) {
  const Linear& wkv = site.weights.wkv;
  const Workspace::Scope scope(step.workspace);
  const Tensor product = step.workspace.f32(input.rows, wkv.n);
  step.ops().linear(input, wkv, step.mode(wkv), product);
  const RowFinish finish = window_entries(step, site, product);
  step.ops().finish_rows({&finish, 1});
  show_entries(step, site, finish.y);
}

Tensor low_rank_query(const StepContext& step, const AttentionSite& site, const Tensor& input) {
  const AttentionWeights& w = site.weights;
  const Tensor result = step.workspace.f32(input.rows, w.wq_a.n);
  const Workspace::Scope scope(step.workspace);
  const Tensor product = step.workspace.f32(input.rows, w.wq_a.n), keys = step.workspace.f32(input.rows, w.wkv.n);
  const LinearCall calls[] = {{input, &w.wq_a, step.mode(w.wq_a), product}, {input, &w.wkv, step.mode(w.wkv), keys}};
  step.ops().linears(calls);
  RowFinish query;
  query.x = product;
  query.norm = {&w.q_norm, step.config().norm_eps, step.rounds()};
  query.y = result;
  const RowFinish finishes[] = {query, window_entries(step, site, keys)};
  step.ops().finish_rows(finishes);
  step.show("qr", result, {result.rows, result.cols});
  show_entries(step, site, finishes[1].y);
  return result;
}

Tensor unrotated_query(const StepContext& step, const AttentionSite& site, const Tensor& low_rank) {
  const Linear& wq_b = site.weights.wq_b;
  const Tensor query = step.workspace.f32(low_rank.rows, wq_b.n);
  step.ops().linear(low_rank, wq_b, step.mode(wq_b), query);
  return query;
}

Result<Tensor> attend(const StepContext& step, const AttentionSite& site, const Tensor& query,
                      std::span<const AttentionRow> rows) {
  const AttentionWeights& w = site.weights;
  const int head_dim = step.config().head_dim;
  const int heads = static_cast<int>(query.cols / head_dim);
  const Tensor out = step.workspace.f32(query.rows, query.cols);
  const Linear* behind = site.is_quiet ? &w.wq_b : nullptr;
  attend_rotated(step, {query, rows, w.sink.data(), heads, head_dim, step.rounds(), out, behind}, site.rope);

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
  return gather_partials(step, partials);
}

Result<Tensor> backbone_attention(const StepContext& step, int layer, const Tensor& input, Selection& selection,
                                  bool entries_stored) {
  const LayerRole& role = step.config().roles[static_cast<std::size_t>(layer)];
  const AttentionWeights& weights = step.model.weights.layers[static_cast<std::size_t>(layer)].attn;
  const std::vector<RecordRing> rings = window_rings(step, layer);
  const bool stores_entries = role.is_kv_source() && !entries_stored;
  const bool is_quiet = !stores_entries && !role.is_index_source();
  const AttentionSite site{weights, step.model.rope_of(role), rings, is_quiet};

  const Tensor low_rank = low_rank_query(step, site, input);
  const Tensor query = unrotated_query(step, site, low_rank);
  if (stores_entries) store_latents(step, layer, compress(step, layer, input));
  if (role.is_index_source()) select_entries(step, layer, input, low_rank, selection);
  return attend(step, site, query, attention_rows(step, role, rings, selection));
}

}  // namespace tandem::gpu
