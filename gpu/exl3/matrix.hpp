// PackedMatrix: one matrix as an EXL3 file holds it, and its plain decoding. What the quantiser makes and what tests
// compare with; the forward pass multiplies from gpu::Linear instead.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/exl3/form.hpp"

namespace tandem::gpu::exl3 {

struct PackedMatrix {
  Form form;
  std::int64_t in = 0;                 // multiple of 128
  std::int64_t out = 0;                // multiple of 128
  std::vector<std::uint16_t> trellis;  // [in / 16, out / 16, 16 * bits]
  std::vector<std::uint16_t> suh;      // [in] FP16: scale and sign of the inputs
  std::vector<std::uint16_t> svh;      // [out] FP16: scale and sign of the outputs

  std::span<const std::uint16_t> tile(std::int64_t row, std::int64_t col) const noexcept {
    const auto words = static_cast<std::size_t>(form.tile_words());
    return std::span(trellis).subspan(static_cast<std::size_t>(row * (out / tile_side) + col) * words, words);
  }
  std::uint64_t bytes() const noexcept { return 2 * (trellis.size() + suh.size() + svh.size()) + 4; }
};

// Returns the decoded tiles What [in, out].
std::vector<float> decode_inner(const PackedMatrix& matrix);

// Returns W = D(suh) BH What BH D(svh), [in, out], computed in double.
std::vector<float> dequantise(const PackedMatrix& matrix);

}  // namespace tandem::gpu::exl3
