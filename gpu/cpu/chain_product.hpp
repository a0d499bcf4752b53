// Products summed as the reference's library sums them: for each output one chain of fused multiply-adds over K, cut
// into blocks whose sums are added in order.
//
// A value of a few FP32 roundings decides on which side of a code's border a cache value falls. The golden values were
// computed in this order, so a trace that is compared with them computes in it too. Serving does not: sixteen lanes
// (simd/kernels.hpp) are faster and closer to the exact sum.
#pragma once

#include <cstdint>
#include <span>

#include "gpu/cpu/product.hpp"

namespace tandem::gpu {

// Inputs of the block that begins where `left` inputs are left: 384, or the whole rest if it is not longer, or about
// half of it if it is shorter than two blocks (the blocking of OpenBLAS, visible in the golden values of K = 1024).
std::int64_t chain_block(std::int64_t left) noexcept;

// Outputs [first, first + count) of consecutive K slices of one matrix, count <= panel_cols.
struct ChainRange {
  std::span<const Linear> slices;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// y[r][c] = x[r] . w[first + c] over all slices, y [rows, y_stride] f32, unrounded. Slices do not cut the chain.
void multiply_chain(ProductScratch& scratch, RowList x, const ChainRange& range, float* y, std::int64_t y_stride);

}  // namespace tandem::gpu
