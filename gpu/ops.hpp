// Ops: every operation of the forward pass, over plain device tensors. The model (gpu/model) is written once against
// it.
//
// Activations are f32 tensors on the CPU backend, holding bf16 values where Numerics says so. Row r of every result
// depends on row r of the inputs alone, and its reductions have an order that depends on the weight's K only: never on
// the number of rows, the chunking, the batch or the rank count. That is what makes a row's bits independent of how it
// was scheduled.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "gpu/kv_record.hpp"
#include "gpu/linear.hpp"
#include "gpu/memory.hpp"
#include "gpu/numerics.hpp"
#include "gpu/sampling/sampler.hpp"
#include "gpu/tensor.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

class Communicator;

// cos/sin of position p and pair i: table[p * pairs + i]; built once on the host (see gpu/rope_table.hpp).
struct RopeView {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int pairs = 0;  // R / 2
  std::int64_t positions = 0;
};

// Coefficients of one mHC site: pre [T, C], post [T, C], comb [T, C*C] (comb[j*C + k]: source stream j to target stream
// k).
struct HcMix {
  Tensor pre, post, comb;
};

// How a linear treats its input and output.
struct LinearMode {
  bool q8 = false;           // quantise x per 32 channels first (only with FP8/FP4 weights)
  bool round_output = true;  // round y to bf16
};

struct LinearCall {
  Tensor x;
  const Linear* weight = nullptr;
  LinearMode mode;
  Tensor y;
};

// What one query row attends to. Both lists may be empty only for the compressed part; a row always sees its own window
// entry.
struct AttentionRow {
  RecordRing window;                       // this layer's ring of the row's sequence
  std::int64_t window_first = 0;           // first visible position, max(0, p - W + 1)
  std::int64_t window_last = 0;            // last visible position, inclusive: p itself (draft rows: see below)
  PagedRecords compressed;                 // the source layer's entries
  const std::int32_t* selected = nullptr;  // entry numbers, any order; ends at the first -1
  std::int32_t selected_count = 0;         // length of `selected`, -1 slots included
};

// q [T, heads*d] rotated; sink [heads]; out [T, heads*d] before the inverse rotation.
struct AttentionCall {
  Tensor q;
  std::span<const AttentionRow> rows;
  const float* sink = nullptr;
  int heads = 0;
  int head_dim = 0;
  // Online softmax over 64-key blocks counted from the row's own first key, window keys first; exps cast to bf16 before
  // the value product when true (reference rounding); out rounded to bf16 when true.
  bool bf16 = true;
  Tensor out;
  // The linear that made q, if it is the operation right in front of this one and all keys were written before it: a
  // backend may then read them while it runs.
  const Linear* behind = nullptr;
};

// One row of the indexer: scores I(p, j) = sum_h w_h * relu(iq_h . ik_j), j < visible; the best `topk` of them.
struct IndexRow {
  PagedRecords keys;
  std::int32_t visible = 0;  // n_c(p)
  // Bit b: block b may be used; null: all may. Of the visible blocks at most candidate_blocks are set, or any if the
  // row sees up to `topk` entries: what publishing leaves.
  const std::uint64_t* candidate_mask = nullptr;
  std::uint64_t* publish_mask = nullptr;   // set when this layer publishes: best blocks, newest block always in
  std::int32_t* selected = nullptr;        // [topk] out, unused slots -1
  std::int32_t* selected_count = nullptr;  // out, in the memory of the tensors; may be null
};

struct IndexCall {
  Tensor iq;       // [T, heads*dim], rotated, X4 applied
  Tensor weights;  // [T, heads], already times index_head_dim^-0.5 * heads^-0.5
  std::span<const IndexRow> rows;
  int heads = 0;
  int head_dim = 0;
  int topk = 0;
  int block_size = 0;        // candidate_block_size
  int candidate_blocks = 0;  // candidate_topk_blocks
};

// Router result of T rows: expert ids and weights [T, k], ordered by falling selection score (ties: lower id first).
struct Routing {
  Tensor ids;      // i32
  Tensor weights;  // f32
};

struct MoeCall {
  Tensor x;  // [T, D]
  Routing routing;
  const MoeWeights* weights = nullptr;
  double swiglu_limit = 10;
  Numerics numerics;
  // partials [slices*T, D] f32, slice-major: routed + shared, not yet summed over slices and ranks. With fp32_partials
  // false there is one slice and the caller gets the finished, rounded sum.
  Tensor out;
};

// The RMSNorm behind something else.
struct RmsNorm {
  const DenseF32* weight = nullptr;
  double eps = 0;
  bool round = true;
};

// What becomes of the rows of x before anybody else reads them, in this order: norm, factor, rotation, X4, record.
struct RowFinish {
  Tensor x;
  RmsNorm norm;      // without a weight: none, and y is x itself; `round` holds for factor and rotation too
  Tensor y;          // holds the finished rows
  float factor = 1;  // 1: none
  // Rotation of the last channels of every head by the angle of positions[t]; none without pairs.
  int heads = 1;
  std::span<const std::int64_t> positions;
  RopeView rope;
  bool quantises_x4 = false;
  // Row t is also written as record positions[t] of rings[t], or as entry entries[t] of caches[t].
  std::span<const RecordRing> rings;
  std::span<const PagedRecords> caches;
  std::span<const std::int32_t> entries;
};

// The angles of the rows of an attention.
struct AttentionAngles {
  std::span<const std::int64_t> positions;
  RopeView rope;
};

// The end of a site: its sublayer's result in parts, and the streams that take it.
struct SiteEnd {
  Tensor streams;
  Tensor parts;  // blocks of streams.rows rows, to be added in their order
  HcMix mix;
  bool round = true;
  Tensor sum;  // [T, D], holds the sum of the parts afterwards
};

// The input of the site behind that one; `u` is memory for it as in mhc_input.
struct SiteInput {
  Tensor pre;
  RmsNorm norm;
  Tensor u, y;
};

// One row copied inside the backend's memory.
struct RowMove {
  const float* from = nullptr;
  float* to = nullptr;
};

// The best column of one row.
struct BestColumn {
  float value = 0;
  std::int32_t column = 0;
};

// A row of logits that a token is drawn from.
struct DrawRow {
  std::int64_t row = 0;
  DrawContext context;
};

// The operations without a body belong to a backend; those with one have a plain form for host memory (ops.cpp).
class Ops {
 public:
  virtual ~Ops() = default;

  // Where all tensors of these operations live.
  virtual Memory& memory() noexcept;
  // Waits for all operations so far. Errors: the first one of any of them.
  virtual Result<void> wait();

  // Runs what `body` issues. A backend may call it several times, start the whole as one, and keep that for when the
  // same comes again: a body that neither waits nor downloads is served best. Errors: those of `body`.
  virtual Result<void> run_as_one(const std::function<Result<void>()>& body) { return body(); }
  // Makes ready what run_as_one(body) would do, as far as that is possible without running anything, for a step that
  // will probably come. The contents of the lists `late` are not known yet: `body` hands each to one operation or
  // upload, itself and not a copy, and nothing else that it issues may depend on them. Returns whether run_prepared may
  // follow; a backend may refuse without a reason.
  using ByteLists = std::span<const std::span<const std::byte>>;
  virtual bool prepare_as_one(const std::function<Result<void>()>&, ByteLists) { return false; }
  // Runs what was made ready last with these contents of its late lists. Returns false, and has done nothing, if
  // nothing is ready: it runs once, and run_as_one discards it.
  virtual bool run_prepared(ByteLists) { return false; }
  // What was issued so far may start while the rest of a body of run_as_one is issued. Nothing is beside the stream.
  virtual void cut() {}

  // Issues what `body` does, which a backend may run beside the operations that follow, until join(side). Until then
  // nobody else may write what it reads or touch what it writes. A body holds no other beside().
  enum class Side { residual, branch };
  virtual void beside(Side, const std::function<void()>& body) { body(); }
  virtual void join(Side) {}

  // Gathers the blocks of all ranks in the order of operations, without a wait. Returns false, and does nothing, where
  // backend and group cannot do that together.
  virtual bool gather(Communicator& group, const Tensor& own, const Tensor& all);

  // Builds the backend's own form of a weight, once, after loading and before it is placed. May release `codes` if
  // `packed` replaces them.
  virtual void prepare(Linear& weight) = 0;
  // The same for a layer's experts together, after their weights were placed.
  virtual void prepare(MoeWeights& weights);

  // Copies `cols` floats for every move; no row is written that another move reads or writes.
  virtual void move_rows(std::span<const RowMove> moves, std::int64_t cols);
  // All bytes 0; the rows of x must follow each other without gaps.
  virtual void clear(Tensor x);
  // x = x * factor, rounded if `round`.
  virtual void scale(Tensor x, float factor, bool round);
  // sum = the blocks of sum.rows rows that `parts` consists of, added in their order; rounded if `round`.
  virtual void sum_blocks(const Tensor& parts, bool round, Tensor sum);
  // tokens[i] = what sample_token draws from row rows[i].row; -1: it refuses, or the caller must. Waits. Errors: wait.
  virtual Result<void> draw_tokens(const Tensor& logits, std::span<const DrawRow> rows, std::span<TokenId> tokens);
  // sums = a + b; best[r] = the largest of row r and the first column that has it. Waits. Errors: of wait.
  virtual Result<void> best_of_sum(const Tensor& a, const Tensor& b, Tensor sums, std::span<BestColumn> best);

  // out[t] = float(table[ids[t]]): rows of a bf16 matrix.
  virtual void gather_rows(const Linear& table, std::span<const std::int32_t> ids, Tensor out) = 0;
  // y = x W^T.
  virtual void linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor y) = 0;
  // Linears of the same number of rows of which none reads what another one writes.
  virtual void linears(std::span<const LinearCall> calls);
  // y[s*T + t] = x[t, slice s] W_s^T in FP32, unrounded, one block of T rows a slice; x is [T, k_local].
  virtual void partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor y) = 0;
  // y = x * rsqrt(mean(x^2) + eps) * w, one rounding at the end if `round`.
  virtual void rmsnorm(const Tensor& x, const DenseF32& w, double eps, bool round, Tensor y) = 0;
  // Finishes the rows of several tensors of which none depends on another one.
  virtual void finish_rows(std::span<const RowFinish> all);
  // Rounds to bf16 in place.
  virtual void round_bf16(Tensor x) = 0;

  // Coefficients from the streams S [T, C*D]: sigmoid / 2 sigmoid / softmax + Sinkhorn (model spec step 3).
  virtual void mhc_mix(const Tensor& streams, const HyperConnection& hc, const ModelConfig& config, HcMix out) = 0;
  // u = sum_j pre_j S_j, rounded if `round`.
  virtual void mhc_collapse(const Tensor& streams, const Tensor& pre, bool round, Tensor u) = 0;
  // y = rmsnorm(u) of the collapsed streams, u rounded if `round`; `u` is memory for it, whose contents are undefined
  // afterwards.
  virtual void mhc_input(const Tensor& streams, const Tensor& pre, const RmsNorm& norm, Tensor u, Tensor y);
  // S_k <- post_k y + sum_j comb[j][k] S_j, in place, rounded if `round`.
  virtual void mhc_expand(Tensor streams, const Tensor& y, const HcMix& mix, bool round) = 0;
  // sum = sum_blocks of the parts, then mhc_expand with it; and the same with the mhc_input that follows.
  virtual void end_site(const SiteEnd& end);
  virtual void end_site(const SiteEnd& end, const SiteInput& next);
  // out = mean over streams, rounded if `round` (DSpark tap).
  virtual void mean_streams(const Tensor& streams, int mult, bool round, Tensor out) = 0;

  // Rotates the last 2*pairs channels of every head of x [T, heads*dim] in place by the angle of positions[t];
  // conjugate if inverse.
  virtual void rope(Tensor x, int heads, std::span<const std::int64_t> positions, const RopeView& table, bool inverse,
                    bool round) = 0;
  // Fake-quantises in place: MXFP4 per 32 channels (index queries).
  virtual void quantise_x4(Tensor x) = 0;
  // Writes row t of x as record positions[t] of rings[t] (W8 or f32, the ring knows).
  virtual void write_window(const Tensor& x, std::span<const RecordRing> rings,
                            std::span<const std::int64_t> positions) = 0;
  // Writes row t of x as entry entries[t] of caches[t] (N4, X4 or f32).
  virtual void write_entries(const Tensor& x, std::span<const PagedRecords> caches,
                             std::span<const std::int32_t> entries) = 0;
  // z = softmax over the two rows of (ga, gb) applied to (ka, kb), per channel, rounded if `round`. All [T, d].
  virtual void pool_pair(const Tensor& ka, const Tensor& ga, const Tensor& kb, const Tensor& gb, bool round,
                         Tensor z) = 0;

  virtual void attention(const AttentionCall& call) = 0;
  // The same for q before its rotation: q turns on the way in, and is undefined afterwards; out turns back. Both are
  // rounded if call.bf16.
  virtual void rotated_attention(const AttentionCall& call, const AttentionAngles& angles);
  virtual void index_select(const IndexCall& call) = 0;

  // s = sqrt(softplus(x gate^T / temperature)); the best k of s + bias; weights s / (sum + 1e-20) * scaling. FP32
  // throughout.
  virtual void route(const Tensor& x, const Linear& gate, const float* bias, double temperature, double scaling,
                     Routing out) = 0;
  virtual void moe(const MoeCall& call) = 0;
  // Begins what moe(call) does without the routing, which is not looked at yet: the shared expert, beside what follows.
  // The next moe() is that call.
  virtual void begin_moe(const MoeCall&) {}

  // S_s += sigmoid(copysign(sqrt(max(|z|, 1e-6)), z)) * value, z from the keys in kv [T, (C+1)*D]; rows with keep[t] ==
  // 0 unchanged.
  virtual void engram_gate(Tensor streams, const Tensor& kv, const EngramWeights& weights, const std::uint8_t* keep,
                           const ModelConfig& config, bool round) = 0;
};

}  // namespace tandem::gpu
