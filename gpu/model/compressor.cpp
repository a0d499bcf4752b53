// The compressed KV of a source layer: one entry per token (ratio 1) or per pair of tokens (ratio 2).
//
// Ratio 2 pools a pair by a softmax over its two tokens, for each channel by itself. A pair may be cut by a step
// boundary: the even row waits in the sequence's open-group ring, addressed by its position, so that any accepted
// length of a verify burst can resume. Nothing partial is ever attended to; the window covers the waiting token.
#include <algorithm>
#include <cstddef>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {
namespace {

// k and g of all rows, FP32 and unrounded.
struct GateRows {
  Tensor key, gate;
};

// Rows of the pairs that complete in this step: `a` the even token, `b` the odd one.
struct Pairs {
  Tensor key_a, gate_a, key_b, gate_b;
};

void normalise(const StepContext& step, const DenseF32& norm, const Tensor& from, const Tensor& to) {
  step.ops().rmsnorm(from, norm, step.config().norm_eps, step.rounds(), to);
}

void add_latent(Latents& latents, SequenceState& sequence, std::int64_t entry, int ratio) {
  latents.entries.push_back(static_cast<std::int32_t>(entry));
  latents.positions.push_back(entry * ratio);
  latents.sequences.push_back(&sequence);
}

Latents compress_each(const StepContext& step, const CompressorWeights& w, const Tensor& input) {
  Latents latents;
  latents.values = step.workspace.f32(input.rows, w.wkv.n);
  const Workspace::Scope scope(step.workspace);
  const Tensor product = step.workspace.f32(input.rows, w.wkv.n);
  step.ops().linear(input, w.wkv, step.mode(w.wkv), product);
  normalise(step, w.norm, product, latents.values);
  for (std::int32_t row = 0; row < step.rows.rows(); ++row) {
    add_latent(latents, step.rows.sequence(row), step.rows.position(row), 1);
  }
  return latents;
}

// Keeps the newest rows of every segment for the steps to come.
void keep_open_rows(const StepContext& step, int layer, const GateRows& rows) {
  const std::int64_t width = rows.key.cols;
  std::vector<RowMove> moves;
  for (const Segment& segment : step.rows.segments()) {
    const auto keep = static_cast<std::int32_t>(std::min<std::int64_t>(segment.count, segment.sequence->open_slots()));
    for (std::int32_t i = segment.count - keep; i < segment.count; ++i) {
      float* open = segment.sequence->open_row(layer, segment.first_position + i);
      moves.push_back({rows.key.row<float>(segment.first_row + i), open});
      moves.push_back({rows.gate.row<float>(segment.first_row + i), open + width});
    }
  }
  step.ops().move_rows(moves, width);
}

// Gathers the two rows of each completed pair, the even one from this step or from the ring. Row i of `pairs` belongs
// to latent i.
void gather_pairs(const StepContext& step, int layer, const GateRows& rows, const Pairs& pairs) {
  const std::int64_t width = rows.key.cols;
  std::int64_t pair = 0;
  std::vector<RowMove> moves;
  for (const Segment& segment : step.rows.segments()) {
    for (std::int32_t i = 0; i < segment.count; ++i) {
      const std::int64_t position = segment.first_position + i;
      if (position % 2 == 0) continue;
      const std::int32_t row = segment.first_row + i;
      const float* open = segment.sequence->open_row(layer, position - 1);
      moves.push_back({i > 0 ? rows.key.row<float>(row - 1) : open, pairs.key_a.row<float>(pair)});
      moves.push_back({i > 0 ? rows.gate.row<float>(row - 1) : open + width, pairs.gate_a.row<float>(pair)});
      moves.push_back({rows.key.row<float>(row), pairs.key_b.row<float>(pair)});
      moves.push_back({rows.gate.row<float>(row), pairs.gate_b.row<float>(pair)});
      ++pair;
    }
  }
  step.ops().move_rows(moves, width);
}

Latents completed_pairs(const StepContext& step) {
  Latents latents;
  for (std::int32_t row = 0; row < step.rows.rows(); ++row) {
    const std::int64_t position = step.rows.position(row);
    if (position % 2 == 1) add_latent(latents, step.rows.sequence(row), position / 2, 2);
  }
  return latents;
}

Latents compress_pairs(const StepContext& step, int layer, const CompressorWeights& w, const Tensor& input) {
  Latents latents = completed_pairs(step);
  const auto count = static_cast<std::int64_t>(latents.entries.size());
  const std::int64_t width = w.wkv.n;
  latents.values = step.workspace.f32(count, width);

  const Workspace::Scope scope(step.workspace);
  const GateRows rows{step.workspace.f32(input.rows, width), step.workspace.f32(input.rows, width)};
  const LinearCall calls[] = {{input, &w.wkv, {step.mode(w.wkv).q8, false}, rows.key},
                              {input, &w.wgate, {step.mode(w.wgate).q8, false}, rows.gate}};
  step.ops().linears(calls);
  if (count > 0) {
    const Pairs pairs{step.workspace.f32(count, width), step.workspace.f32(count, width),
                      step.workspace.f32(count, width), step.workspace.f32(count, width)};
    gather_pairs(step, layer, rows, pairs);
    const Tensor pooled = step.workspace.f32(count, width);
    step.ops().pool_pair(pairs.key_a, pairs.gate_a, pairs.key_b, pairs.gate_b, step.rounds(), pooled);
    normalise(step, w.norm, pooled, latents.values);
  }
  keep_open_rows(step, layer, rows);
  return latents;
}

void show_entries(const StepContext& step, const char* site, std::span<const PagedRecords> caches,
                  std::span<const std::int32_t> entries) {
  if (step.probe == nullptr || caches.empty()) return;
  std::vector<const std::byte*> places;
  for (std::size_t i = 0; i < caches.size(); ++i) places.push_back(caches[i].at(entries[i]));
  step.show_records(site, caches.front().format, caches.front().n, places);
}

// Keys, if there are any, and entries as they were stored.
void show_stored(const StepContext& step, std::span<const RowFinish> stored) {
  const RowFinish& entries = stored.back();
  if (stored.size() > 1) {
    step.show("ik_pre_x4", stored.front().y, {entries.y.rows, stored.front().y.cols});
    show_entries(step, "ik", stored.front().caches, entries.entries);
  }
  step.show("ckv_pre_n4", entries.y, {entries.y.rows, entries.y.cols});
  show_entries(step, "ckv", entries.caches, entries.entries);
}

}  // namespace

Latents compress(const StepContext& step, int layer, const Tensor& input) {
  const CompressorWeights& weights = step.model.weights.layers[static_cast<std::size_t>(layer)].attn.compressor;
  const int ratio = step.config().roles[static_cast<std::size_t>(layer)].ratio;
  Latents latents = ratio == 1 ? compress_each(step, weights, input) : compress_pairs(step, layer, weights, input);
  step.show("latent", latents.values, {latents.values.rows, latents.values.cols});
  return latents;
}

void store_latents(const StepContext& step, int layer, const Latents& latents) {
  const IndexerWeights& indexer = step.model.weights.layers[static_cast<std::size_t>(layer)].attn.indexer;
  if (latents.entries.empty()) {
    for (const char* site : {"ckv_pre_n4", "ckv"}) step.show(site, latents.values, {0, latents.values.cols});
    for (const char* site : {"ik_pre_x4", "ik"}) {
      if (!indexer.wk.empty()) step.show(site, Tensor::f32(nullptr, 0, indexer.wk.n), {0, indexer.wk.n});
    }
    return;
  }
  const Workspace::Scope scope(step.workspace);
  std::vector<PagedRecords> caches, key_caches;
  for (const SequenceState* sequence : latents.sequences) {
    caches.push_back(sequence->entries(layer));
    if (!indexer.wk.empty()) key_caches.push_back(sequence->index_keys(layer));
  }
  RowFinish entries;
  entries.x = latents.values;
  entries.y = latents.values;
  entries.norm.round = step.rounds();
  entries.positions = latents.positions;
  entries.rope = step.model.rope_of(step.config().roles[static_cast<std::size_t>(layer)]);
  entries.caches = caches;
  entries.entries = latents.entries;
  std::vector<RowFinish> finishes;
  if (!indexer.wk.empty()) {  // index keys come from the latents before their rotation
    RowFinish& keys = finishes.emplace_back(entries);
    keys.x = step.workspace.f32(latents.values.rows, indexer.wk.n);
    keys.y = step.workspace.f32(latents.values.rows, indexer.wk.n);
    keys.norm.weight = &indexer.k_norm;
    keys.norm.eps = step.config().norm_eps;
    keys.caches = key_caches;
    step.ops().linear(latents.values, indexer.wk, step.mode(indexer.wk), keys.x);
  }
  finishes.push_back(entries);
  step.ops().finish_rows(finishes);
  show_stored(step, finishes);
}

}  // namespace tandem::gpu
