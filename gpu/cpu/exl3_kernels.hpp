// The vector kernels under products with EXL3 weights: decoding of tiles and the two Hadamard transforms, chosen for
// the processor at run time. The bits of a result are the same on every instruction set.
#pragma once

#include <cstdint>

#include "gpu/exl3/form.hpp"

namespace tandem::gpu::simd {

// `tiles` consecutive tiles of 16 outputs: out[c * out_stride + 16 * i + r] is the weight of input r of tile i and
// output c, exact. `words` is aligned to 2 bytes; nothing beyond the tiles is read.
struct Exl3Strip {
  const std::uint16_t* words = nullptr;  // [tiles, 16 * bits]
  std::int64_t tiles = 0;
  exl3::Form form;
  float* out = nullptr;  // [16, out_stride]
  std::int64_t out_stride = 0;
};
void decode_exl3(const Exl3Strip& strip);

// out = (x o suh) BH: x [n], missing inputs up to the next multiple of 128 count as zero; suh FP16 and out of that
// padded length.
void transform_exl3_inputs(const float* x, const std::uint16_t* suh, std::int64_t n, float* out);

// y = (raw BH) o svh for one block of 128 outputs, of which the first `n` are wanted. `raw` [128] is overwritten.
void transform_exl3_outputs(float* raw, const std::uint16_t* svh, std::int64_t n, float* y);

}  // namespace tandem::gpu::simd
