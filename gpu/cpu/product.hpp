// Products of activation rows with compact weights: the one place where weights are decoded and multiplied.
//
// A worker decodes a small panel of weights (a few outputs, 512 inputs) into its own cache and multiplies it with up to
// 96 rows before it decodes the next: each weight is read from memory once a block of rows. The order of summation is
// that of simd/kernels.hpp, a function of the weight's K alone, or the reference's (chain_product.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/cpu/thread_pool.hpp"
#include "gpu/linear.hpp"
#include "gpu/numerics.hpp"

namespace tandem::gpu {

inline constexpr std::int64_t panel_cols = 16;    // outputs of one unit of work
inline constexpr std::int64_t panel_depth = 512;  // inputs decoded at a time
inline constexpr std::int64_t block_rows = 96;    // rows multiplied with one decoded panel

// One worker's memory for products.
struct ProductScratch {
  explicit ProductScratch(SumOrder sum_order);
  SumOrder order;
  std::vector<float> panel;  // [panel_cols, panel_depth]
  std::vector<float> acc;    // [block_rows, panel_cols, lanes]
  std::vector<float> tail;   // [block_rows, lanes]: the ragged end of the rows, padded with zeros
};

// Pointers to rows of activations.
using RowList = std::span<const float* const>;

// Outputs [first, first + count) of a weight, count <= panel_cols.
struct PanelRange {
  const Linear* weight = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// y[r][c] = x[r] . w[first + c] for every row, y [rows, y_stride] f32, unrounded.
void multiply_panel(ProductScratch& scratch, RowList x, const PanelRange& range, float* y, std::int64_t y_stride);

// Decodes inputs [k_first, k_first + k_count) of outputs [first, first + count) of `weight` into out [count, stride].
// k_first must be a multiple of 32. A format that this backend does not multiply gives NaN.
void decode_weights(const PanelRange& range, std::int64_t k_first, std::int64_t k_count, float* out,
                    std::int64_t stride);

// Returns pointers to `rows` rows, `stride` floats apart.
std::vector<const float*> row_pointers(const float* first, std::int64_t rows, std::int64_t stride);

}  // namespace tandem::gpu
