// The three codebooks of EXL3: a 16-bit trellis state becomes one fp16 weight (turboderp-org/exllamav3, doc/exl3.md).
//
//   3INST  x = s * 89226354 + 64248484;  x = (x & 0x8fff8fff) ^ 0x3b603b60;  w = low half + high half, in fp16
//   MCG    x = s * 0xCBAC1FED; then as 3INST
//   MUL1   x = s * 0x83DCD12D;  w = fp16(fma(1024 + sum of the four bytes of x, k, c))
//
// Weights are made in pairs: the first state fills the low half of the result. Bit exact for all states.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/cuda/exl3/exl3.hpp"

namespace tandem::gpu::cuda {

__device__ __forceinline__ std::uint32_t half2_bits(__half2 value) {
  return *reinterpret_cast<std::uint32_t*>(&value);
}

__device__ __forceinline__ __half2 half2_of(std::uint32_t bits) {
  return *reinterpret_cast<__half2*>(&bits);
}

// The fp16 pattern 0x6400 + b is the number 1024 + b, so a byte sum that starts at 0x6400 needs no conversion.
__device__ __forceinline__ std::uint32_t mul1_sum(std::uint32_t state) {
  return __dp4a(state * 0x83DCD12Du, 0x01010101u, 0x6400u);
}

// The second sum moves to the upper half by a multiply-add, which also starts the first one below it: one instruction
// of the less busy pipe instead of a byte permutation.
__device__ __forceinline__ std::uint32_t mul1_pair(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t upper = mul1_sum(second) * 65536u + 0x6400u;
  const std::uint32_t both = __dp4a(first * 0x83DCD12Du, 0x01010101u, upper);
  return half2_bits(__hfma2(half2_of(both), half2_of(0x1EEE1EEEu), half2_of(0xC931C931u)));
}

__device__ __forceinline__ std::uint32_t masked_pair(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t x = (first & 0x8fff8fffu) ^ 0x3b603b60u, y = (second & 0x8fff8fffu) ^ 0x3b603b60u;
  const std::uint32_t low = __byte_perm(x, y, 0x5410), high = __byte_perm(x, y, 0x7632);
  return half2_bits(__hadd2(half2_of(low), half2_of(high)));
}

template <Exl3Codebook codebook>
__device__ __forceinline__ std::uint32_t weight_pair(std::uint32_t first, std::uint32_t second) {
  if constexpr (codebook == Exl3Codebook::mul1) return mul1_pair(first, second);
  if constexpr (codebook == Exl3Codebook::mcg) return masked_pair(first * 0xCBAC1FEDu, second * 0xCBAC1FEDu);
  return masked_pair(first * 89226354u + 64248484u, second * 89226354u + 64248484u);
}

}  // namespace tandem::gpu::cuda
