// Decoding of a whole matrix, tile by tile, without an eye on speed.
#include "gpu/exl3/matrix.hpp"

#include <algorithm>

#include "gpu/exl3/hadamard.hpp"
#include "gpu/exl3/tile.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu::exl3 {

std::vector<float> decode_inner(const PackedMatrix& matrix) {
  std::vector<float> inner(static_cast<std::size_t>(matrix.in * matrix.out));
  std::array<float, tile_weights> tile{};
  for (std::int64_t row = 0; row < matrix.in / tile_side; ++row) {
    for (std::int64_t col = 0; col < matrix.out / tile_side; ++col) {
      decode_tile(matrix.tile(row, col), matrix.form, tile);
      for (std::int64_t i = 0; i < tile_side; ++i) {
        std::copy_n(tile.data() + i * tile_side, tile_side,
                    inner.data() + (row * tile_side + i) * matrix.out + col * tile_side);
      }
    }
  }
  return inner;
}

std::vector<float> dequantise(const PackedMatrix& matrix) {
  const std::vector<float> inner = decode_inner(matrix);
  std::vector<double> w(inner.begin(), inner.end());
  transform_rows(w.data(), matrix.in, matrix.out);
  transform_columns(w.data(), matrix.in, matrix.out);
  std::vector<float> result(w.size());
  for (std::int64_t i = 0; i < matrix.in; ++i) {
    const double scale = f16_to_float(matrix.suh[static_cast<std::size_t>(i)]);
    for (std::int64_t j = 0; j < matrix.out; ++j) {
      const auto at = static_cast<std::size_t>(i * matrix.out + j);
      result[at] = static_cast<float>(scale * w[at] * f16_to_float(matrix.svh[static_cast<std::size_t>(j)]));
    }
  }
  return result;
}

}  // namespace tandem::gpu::exl3
