// The quantisers' arithmetic; see the header for the formulas. Plain scalar code: it is the reference of the vectorised
// Q8.
#include "gpu/numeric/quantise.hpp"

#include <algorithm>
#include <bit>

#include "gpu/numeric/minifloat.hpp"

namespace tandem::gpu {
namespace {

// Largest magnitude, compared as bits: a NaN is larger than everything, so it is never lost.
float largest_magnitude(std::span<const float> x, float floor) noexcept {
  auto largest = std::bit_cast<std::uint32_t>(floor);
  for (const float value : x) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & ~f32_sign_bit);
  return std::bit_cast<float>(largest);
}

void encode_nibbles(std::span<const float> x, float scale, std::uint8_t* nibbles) noexcept {
  for (std::size_t i = 0; i < x.size(); i += 2) {
    const std::uint8_t low = e2m1_code(round_to_e2m1(x[i] / scale));
    const std::uint8_t high = e2m1_code(round_to_e2m1(x[i + 1] / scale));
    nibbles[i / 2] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

}  // namespace

std::uint8_t quantise_q8(std::span<const float> x, std::uint8_t* codes) noexcept {
  const std::uint8_t byte = e8m0_ceil(largest_magnitude(x, 1e-4F) * (1.0F / 448.0F));
  const float scale = e8m0_to_float(byte);
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = e4m3_code(round_to_e4m3(x[i] / scale));
  return byte;
}

std::uint8_t quantise_x4(std::span<const float> x, std::uint8_t* nibbles) noexcept {
  const std::uint8_t byte = e8m0_ceil(largest_magnitude(x, 6 * 0x1p-126F) * (1.0F / 6.0F));
  encode_nibbles(x, e8m0_to_float(byte), nibbles);
  return byte;
}

std::uint8_t quantise_n4(std::span<const float> x, std::uint8_t* nibbles) noexcept {
  const float amax = largest_magnitude(x, 6 * 0x1p-9F);
  const bool broken = (std::bit_cast<std::uint32_t>(amax) & f32_exponent_bits) == f32_exponent_bits;
  const float scale = broken ? std::bit_cast<float>(0x7FC00000U) : round_to_e4m3(amax / 6.0F);
  encode_nibbles(x, scale, nibbles);
  return e4m3_code(scale);
}

}  // namespace tandem::gpu
