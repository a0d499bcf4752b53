// The blocks of the forward pass, one source file each, in the order in which a row meets them.
//
// Symbols: T rows, D hidden, C residual streams, H heads of this rank, d head dim, W window. All tensors are f32 and
// hold bf16 values where the numerics round. Equation numbers (1)-(8), (A1)-(A7), (I1)-(I6), (M1)-(M5) are those of
// docs' account of the forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/model/step_context.hpp"

namespace tandem::gpu {

// Residual streams S [T, C*D] and the collapse weights `pre` [T, C] made at the previous site.
struct Residual {
  Tensor streams;
  Tensor pre;
  Tensor input = {};       // [T, D] memory for what the next block begins with
  bool has_input = false;  // whether it is there already
};

// The choices that layers pass down within one step: SEL (entries to attend to) and CAND (blocks a later indexer may
// use).
struct Selection {
  Tensor selected;    // i32 [T, topk], -1 behind the last entry of a row
  Tensor candidates;  // i64 [T, words]: bit masks over blocks; empty if no layer publishes any
};

// Where an attention site works: weights, angles and the rings that its window entries go to, one per row.
struct AttentionSite {
  const AttentionWeights& weights;
  RopeView rope;
  std::span<const RecordRing> rings;
  bool is_quiet = false;  // nothing is stored or chosen between the query's product and the attention
};

// Latents of the groups that complete in this step.
struct Latents {
  Tensor values;                          // [n, d] before rotation
  std::vector<std::int32_t> entries;      // [n] entry number j
  std::vector<std::int64_t> positions;    // [n] position of the group's first token, j * ratio
  std::vector<SequenceState*> sequences;  // [n]
};

// Where the rows of Engram tables come from: a request on its way, or the host's memory if that is given.
struct EngramRows {
  const EngramRequest& request;
  const std::vector<Buffer>* values = nullptr;
};

struct MoeShape {
  int experts_per_token = 0;
  bool image_bias = false;  // rows of image tokens select with bias_vl
};

// --- embedding.cpp ---
// (1) S = [e, e, .., e], pre = one-hot on stream 0. The tensors are taken from the workspace.
Residual embed(const StepContext& step);

// --- engram_hook.cpp ---
// (2) Adds the gated Engram value to all streams, before anything else in the layer.
Result<void> engram_hook(const StepContext& step, int layer, const EngramRows& rows, Tensor streams);

// --- mhc.cpp ---
// (3) Coefficients of a site from the streams entering it; those for the next site go to `pre`.
HcMix mhc_coefficients(const StepContext& step, const Tensor& streams, const HyperConnection& weights,
                       const Tensor& pre);
// (4) RMSNorm of the streams collapsed with the mix of the *previous* site.
Tensor mhc_input(const StepContext& step, const Tensor& streams, const Tensor& pre, const DenseF32& norm);

// --- block.cpp ---
// (3)-(7) One transformer block: attention site, FFN site; leaves the next collapse weights in residual.pre.
// The attention returns its result in parts (gather_partials). If `next` is given, it is the block that follows with
// nothing in between, and finds its input made.
using AttentionFn = std::function<Result<Tensor>(const Tensor& input)>;
struct BlockSite {
  const BlockWeights& weights;
  MoeShape moe;
  const BlockWeights* next = nullptr;
};
Result<void> run_block(StepContext& step, const BlockSite& site, Residual& residual, const AttentionFn& attention);

// --- attention.cpp ---
// (A2) Window entries of all rows into their rings.
void store_window(const StepContext& step, const AttentionSite& site, const Tensor& input);
// (A1), (A2) qr = RMSNorm(a wq_a^T) [T, q_lora], and the window entries with it.
Tensor low_rank_query(const StepContext& step, const AttentionSite& site, const Tensor& input);
// (A1) qr wq_b^T [T, H*d], which `attend` rotates.
Tensor unrotated_query(const StepContext& step, const AttentionSite& site, const Tensor& low_rank);
// (A4)-(A7) Rotation of the query, attention, inverse rotation, grouped output projection: parts of [T, D].
Result<Tensor> attend(const StepContext& step, const AttentionSite& site, const Tensor& query,
                      std::span<const AttentionRow> rows);
// 4.1 as a whole for backbone layer `layer`. `entries_stored`: the source's entries of these rows are in the caches
// already.
Result<Tensor> backbone_attention(const StepContext& step, int layer, const Tensor& input, Selection& selection,
                                  bool entries_stored);

// --- compressor.cpp ---
// 4.2 Latents of the groups of the KV source `layer` that these rows complete; keeps the rows of open groups.
Latents compress(const StepContext& step, int layer, const Tensor& input);
// (I1), (A3) Index keys of the latents into the owner's cache; rotates the latents and stores them as compressed
// entries.
void store_latents(const StepContext& step, int layer, const Latents& latents);

// --- indexer.cpp ---
// (I2)-(I6) Chooses SEL, and publishes or obeys CAND. `low_rank` is the qr of the attention.
void select_entries(const StepContext& step, int layer, const Tensor& input, const Tensor& low_rank,
                    Selection& selection);
Selection make_selection(const StepContext& step);

// --- moe.cpp ---
// (M1)-(M5) Routed and shared experts: parts of [T, D].
Result<Tensor> mixture_of_experts(const StepContext& step, const MoeWeights& weights, MoeShape shape,
                                  const Tensor& input);

// --- partial_sum.cpp ---
// Gathers FP32 partial products [slices*T, D] of all ranks: blocks of T rows in K order, to be added and rounded once.
Result<Tensor> gather_partials(const StepContext& step, const Tensor& partials);

// --- head.cpp ---
// (8) logits [n, vocab] of collapsed rows [n, D]: RMSNorm, this rank's vocabulary rows, all-gather.
Result<Tensor> head_logits(const StepContext& step, const Tensor& hidden, const DenseF32& norm);

}  // namespace tandem::gpu
