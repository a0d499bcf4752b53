// Linear: one weight matrix W [n outputs, k inputs] in the format that its file has; y = x W^T, no bias.
//
// The codes stay compact in memory; a backend may add its own packed form in `packed` (set once by Ops::prepare, then
// read only).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/exl3/form.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

enum class WeightFormat : std::uint8_t {
  bf16,         // codes: n*k bf16
  f32,          // codes: n*k f32
  fp8_block32,  // codes: n*k e4m3; scales: [ceil(n/32), ceil(k/32)] e8m0; w = e4m3 * 2^(s-127)
  fp4_block32,  // codes: n*k/2 bytes, low nibble = even column; scales: [n, k/32] e8m0
  // codes: tiles of 16 x 16 weights, their words as in the file, the tiles of 16 outputs side by side:
  // [n' / 16][k' / 16][16 * bits] u16, n' and k' rounded up to 128; scales: FP16 suh [k'], then svh [n']. See
  // gpu/exl3/form.hpp.
  exl3,
};

struct Linear {
  std::string name;  // checkpoint name without ".weight"
  WeightFormat format = WeightFormat::bf16;
  std::int64_t n = 0;  // outputs on this rank
  std::int64_t k = 0;  // inputs on this rank
  Buffer codes;
  Buffer scales;
  exl3::Form exl3;                     // format exl3 only
  std::shared_ptr<const void> packed;  // the backend's own layout, if it has one

  bool empty() const noexcept { return n == 0; }
  bool is_low_precision() const noexcept {
    return format == WeightFormat::fp8_block32 || format == WeightFormat::fp4_block32;
  }
};

}  // namespace tandem::gpu
