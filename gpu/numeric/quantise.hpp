// The four quantisers of the model, one contiguous group of channels at a time. Codes and scale bytes are what the
// records and the low-precision GEMMs hold; `code * scale` is exact in FP32 and in BF16.
//
//   Q8, W8  32 channels  a = max(amax, 1e-4)     s = pow2ceil(a * (1/448))  q = e4m3(clamp(x/s, +-448))
//   X4      32 channels  a = max(amax, 6*2^-126) s = pow2ceil(a * (1/6))    q = e2m1(clamp(x/s, +-6))
//   N4      16 channels  a = max(amax, 6*2^-9)   s = e4m3(a / 6)            q = e2m1(clamp(x/s, +-6))
//
// A NaN or infinity in a group makes the group's scale NaN (X4, N4, Q8 with amax infinite) or stays a NaN code (Q8): a
// broken row stays visibly broken and never traps.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::gpu {

inline constexpr int q8_group = 32;
inline constexpr int x4_group = 32;
inline constexpr int n4_group = 16;

// Quantises one group of up to q8_group values into codes; returns the e8m0 scale byte. codes has as many elements as
// x.
std::uint8_t quantise_q8(std::span<const float> x, std::uint8_t* codes) noexcept;
// Quantises one group of x4_group values into nibbles (even channel low); returns the e8m0 scale byte.
std::uint8_t quantise_x4(std::span<const float> x, std::uint8_t* nibbles) noexcept;
// Quantises one group of n4_group values into nibbles (even channel low); returns the e4m3 scale byte.
std::uint8_t quantise_n4(std::span<const float> x, std::uint8_t* nibbles) noexcept;

}  // namespace tandem::gpu
