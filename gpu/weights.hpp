// ModelWeights: all resident tensors of one rank, named after the checkpoint, sliced for tensor parallelism at load.
//
// Sharding (R ranks, rank r): wq_b and attn_sink by heads (rows); wo_a by groups; wo_b, w2 by input columns; w1, w3 by
// output rows; head and Markov head by vocabulary rows; everything else replicated. Column slices (wo_b, w2) are kept
// as *two K halves of the whole matrix*: a rank holds the halves it owns, so that one rank (2 halves) and two ranks (1
// half each) form the same FP32 partial sums. With R > 2 a rank holds one slice of K/R. See PartialLinear.
#pragma once

#include <memory>
#include <vector>

#include "gpu/config.hpp"
#include "gpu/linear.hpp"

namespace tandem::gpu {

// A matrix split along K whose products are FP32 partial sums: y = sum over all slices of all ranks in K order.
struct PartialLinear {
  std::vector<Linear> slices;  // this rank's consecutive K slices, ascending: 2 (one rank) or 1 (two or more)
  std::int64_t n = 0;
  std::int64_t k_local = 0;  // sum of the slices' k
};

// A small resident vector or matrix, converted to f32 at load.
struct DenseF32 {
  Buffer values;
  std::int64_t rows = 0, cols = 0;
  const float* data() const noexcept { return values.as<float>(); }
  bool empty() const noexcept { return rows == 0; }
};

struct HyperConnection {  // hc_attn_* or hc_ffn_*
  DenseF32 fn;            // [(2+C)*C, C*D]
  DenseF32 base;          // [(2+C)*C]
  DenseF32 scale;         // [3]
};

struct ExpertWeights {
  Linear w1, w3;     // gate, up: [inter/R, D]
  PartialLinear w2;  // down: [D, inter/R]
};

struct MoeWeights {
  Linear gate;       // [experts, D]
  DenseF32 bias;     // [experts], selection only
  DenseF32 bias_vl;  // [experts] or empty
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  std::shared_ptr<const void> packed;  // the backend's own form, if it has one
};

struct CompressorWeights {  // KV source layers
  Linear wkv;               // [d, D]
  Linear wgate;             // [d, D], ratio 2 only
  DenseF32 norm;            // [d]
};

struct IndexerWeights {  // index source layers
  Linear wq_b;           // [index_heads*index_head_dim, q_lora]
  Linear weights_proj;   // [index_heads, D]
  Linear wk;             // [index_head_dim, d], index-key owners only
  DenseF32 k_norm;       // [index_head_dim], owners only
};

struct AttentionWeights {
  Linear wq_a;               // [q_lora, D]
  DenseF32 q_norm;           // [q_lora]
  Linear wq_b;               // [H/R*d, q_lora]
  Linear wkv;                // [d, D]
  DenseF32 kv_norm;          // [d]
  DenseF32 sink;             // [H/R]
  std::vector<Linear> wo_a;  // o_groups/R independent [o_lora, H*d/o_groups]
  PartialLinear wo_b;        // [D, o_groups*o_lora/R]
  CompressorWeights compressor;
  IndexerWeights indexer;
};

struct EngramWeights {
  Linear wkv;         // [(C+1)*D, columns*head_dim]
  DenseF32 q_weight;  // [C, D]
  DenseF32 k_weight;  // [C, D]
};

struct BlockWeights {  // one backbone layer or one DSpark stage
  DenseF32 attn_norm, ffn_norm;
  HyperConnection hc_attn, hc_ffn;
  AttentionWeights attn;
  MoeWeights moe;
  EngramWeights engram;  // Engram layers only
};

struct DsparkWeights {
  Linear main_proj;    // [D, taps*D]
  DenseF32 main_norm;  // [D]
  std::vector<BlockWeights> stages;
  DenseF32 norm;        // [D]
  Linear markov_embed;  // [vocab, rank] bf16, replicated; read by row
  Linear markov_head;   // [vocab/R, rank]
  DenseF32 confidence;  // [1, D + rank] or empty: run without it
};

struct ModelWeights {
  Linear embed;   // [vocab, D] bf16, replicated; read by row
  DenseF32 norm;  // [D]
  Linear head;    // [vocab/R, D]
  std::vector<BlockWeights> layers;
  DsparkWeights dspark;
  std::size_t bytes = 0;  // resident bytes of this rank
};

}  // namespace tandem::gpu
