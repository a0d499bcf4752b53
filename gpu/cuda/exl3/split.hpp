// How the inputs of a matrix are divided over blocks and warps: the one place that decides the order of additions.
//
// The answer depends on the shape and on whether the matrix is one of a set or of many in a launch, never on rows,
// device or grid. Chosen by measurement on an H200 (gpu/cuda/BENCHMARKS.md): few column blocks need every warp that a
// cluster can give; matrices in a grouped launch fill the card together and want long slices.
#pragma once

#include <algorithm>

#include "gpu/cuda/exl3/exl3.hpp"

namespace tandem::gpu::cuda {

inline Exl3Split exl3_split_single(const Exl3Shape& shape) {
  // More blocks than these do not fit at once, since the blocks of a cluster must lie close together: one block of 16
  // warps or two of 8 on each of 132 multiprocessors, less what does not divide evenly.
  constexpr int blocks_of_16_warps = 100, blocks_of_8_warps = 208, widest_cut_in_two = 132;
  constexpr int narrow = 18;
  const int column_blocks = shape.outputs / exl3_block;
  const int slices_max = std::min(exl3_slices_max, shape.inputs / exl3_block);
  if (shape.codebook == Exl3Codebook::mul1 && column_blocks <= narrow) {
    return {std::clamp(blocks_of_16_warps / column_blocks, 1, slices_max), 8};
  }
  const int least = column_blocks <= widest_cut_in_two && slices_max > 1 ? 2 : 1;
  return {std::clamp(blocks_of_8_warps / column_blocks, least, slices_max), 4};
}

// The matrices of a set lie side by side.
inline Exl3Split exl3_split_of_set(const Exl3Shape& shape, int count) {
  Exl3Shape wide = shape;
  wide.outputs *= count;
  return exl3_split_single(wide);
}

// Chains of a slice in grouped launches: a few matrices have a pair of warps for each, many have half of that.
inline constexpr int exl3_group_chains = 4;

inline Exl3Split exl3_split_of_groups(const Exl3Shape& shape) {
  constexpr int inputs_of_slice = 2560;
  const int slices = std::clamp(shape.inputs / inputs_of_slice, 1, exl3_slices_max);
  return {slices, exl3_group_chains};
}

}  // namespace tandem::gpu::cuda
