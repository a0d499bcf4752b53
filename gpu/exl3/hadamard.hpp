// The normalised 128 x 128 Hadamard matrix in natural order, H[i][j] = (-1)^popcount(i & j) / sqrt(128), applied to
// consecutive blocks of 128 channels. It is its own inverse.
//
// Seven stages of butterflies (a, b) -> (a + b, a - b) over pairs i, i + w of groups of 2w, w = 1, 2, .. 64, then one
// scaling.
#pragma once

#include <cstdint>

#include "gpu/exl3/form.hpp"

namespace tandem::gpu::exl3 {

inline constexpr double hadamard_scale = 0.08838834764831845;  // 1 / sqrt(128)

// Transforms one block of 128 numbers that lie `element_stride` apart.
template <class Number>
void transform_block(Number* x, std::int64_t element_stride) noexcept {
  for (std::int64_t width = 1; width < block_side; width *= 2) {
    for (std::int64_t first = 0; first < block_side; first += 2 * width) {
      for (std::int64_t i = first; i < first + width; ++i) {
        Number& a = x[i * element_stride];
        Number& b = x[(i + width) * element_stride];
        const Number sum = a + b, difference = a - b;
        a = sum;
        b = difference;
      }
    }
  }
  for (std::int64_t i = 0; i < block_side; ++i) x[i * element_stride] *= static_cast<Number>(hadamard_scale);
}

// x [rows, cols] <- x BH: every row, blocks along the columns. cols is a multiple of 128.
template <class Number>
void transform_rows(Number* x, std::int64_t rows, std::int64_t cols) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; c += block_side) transform_block(x + r * cols + c, 1);
  }
}

// x [rows, cols] <- BH x: blocks along the rows, whole rows at a time. rows is a multiple of 128.
template <class Number>
void transform_columns(Number* x, std::int64_t rows, std::int64_t cols) noexcept {
  for (std::int64_t block = 0; block < rows; block += block_side) {
    for (std::int64_t width = 1; width < block_side; width *= 2) {
      for (std::int64_t i = 0; i < block_side; ++i) {
        if ((i & width) != 0) continue;
        Number* a = x + (block + i) * cols;
        Number* b = a + width * cols;
        for (std::int64_t c = 0; c < cols; ++c) {
          const Number sum = a[c] + b[c], difference = a[c] - b[c];
          a[c] = sum;
          b[c] = difference;
        }
      }
    }
  }
  for (std::int64_t i = 0; i < rows * cols; ++i) x[i] *= static_cast<Number>(hadamard_scale);
}

}  // namespace tandem::gpu::exl3
