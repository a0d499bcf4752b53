// The order in which the indexer sums, the same in every backend and kernel: a score's bits depend on nothing else.
//
//   b_i    = sum of q_d k_d over dimensions 32 i .. 32 i + 31      one chain of fused multiply-adds from zero
//   dot_h  = ((b_0 + b_1) + b_2) + ...
//   s_l    = sum of w_h relu(dot_h) over heads h = l mod 8         one chain of fused multiply-adds, h ascending
//   score  = the eight s_l as a tree of halves: l + 4, l + 2, l + 1
//
// Queries and keys in MXFP4 (model spec 4.3) have one scale for 32 dimensions: all products of a block are multiples of
// a quarter of the two scales' product and at most 1152 times it, so b_i is exact in FP32 whichever order it is formed
// in, and matrix instructions may form it. Eight lanes are the rows of one such instruction that a warp sums last.
#pragma once

namespace tandem::gpu {

inline constexpr int index_dims = 32;  // dimensions of b_i; the last block may have fewer
inline constexpr int index_lanes = 8;  // s_l

}  // namespace tandem::gpu
