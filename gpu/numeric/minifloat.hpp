// The three small formats of weights and records: e4m3 (8 bit), e2m1 (4 bit) and e8m0 (a bare power of two).
//
// Decoding is exact. Encoding rounds to nearest even by adding and removing 1.5 * 2^23 quanta of the target format,
// which the FP32 adder rounds for us; this needs the default rounding mode and no fast-math.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem::gpu {

inline constexpr float e4m3_max = 448.0F;
inline constexpr float e2m1_max = 6.0F;

inline constexpr std::uint32_t f32_sign_bit = 0x80000000U;
inline constexpr std::uint32_t f32_exponent_bits = 0x7F800000U;

constexpr bool is_nan_bits(std::uint32_t bits) noexcept {
  return (bits & ~f32_sign_bit) > f32_exponent_bits;
}

// e4m3: sign, 4 exponent bits (bias 7), 3 mantissa bits, no infinity; 0x7F and 0xFF are NaN.
constexpr float e4m3_to_float(std::uint8_t code) noexcept {
  const std::uint32_t sign = std::uint32_t{code & 0x80U} << 24;
  const std::uint32_t magnitude = code & 0x7FU;
  if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);
  const float scaled =
      std::bit_cast<float>(magnitude << 20) * 0x1p120F;  // moved in place it reads 2^-120 times the value
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

// e8m0: 2^(byte - 127); 0xFF is NaN.
constexpr float e8m0_to_float(std::uint8_t byte) noexcept {
  if (byte == 0xFF) return std::bit_cast<float>(0x7FC00000U);
  return byte == 0 ? 0x1p-127F : std::bit_cast<float>(std::uint32_t{byte} << 23);
}

// e2m1: sign bit 3, magnitude index into {0, .5, 1, 1.5, 2, 3, 4, 6}. Only the low nibble of `code` is read.
constexpr float e2m1_to_float(std::uint8_t code) noexcept {
  constexpr float values[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = values[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Returns `value` rounded to a multiple of 2^(e - mantissa_bits), where 2^e <= |value| or e = min_exponent for smaller
// ones. Exact round-to-nearest-even for |value| up to the format's maximum; the sign survives, also of zero.
template <int mantissa_bits, int min_exponent>
constexpr float round_to_quantum(float value) noexcept {
  constexpr std::uint32_t smallest = static_cast<std::uint32_t>(127 + min_exponent) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = bits & f32_exponent_bits;
  const float power = std::bit_cast<float>(exponent > smallest ? exponent : smallest);
  const float magic = power * (1.5F * static_cast<float>(1 << (23 - mantissa_bits)));
  const float rounded = (value + magic) - magic;
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(rounded) & ~f32_sign_bit;
  return std::bit_cast<float>(magnitude | (bits & f32_sign_bit));
}

constexpr float clamp_magnitude(float value, float limit) noexcept {
  if (value > limit) return limit;
  return value < -limit ? -limit : value;  // a NaN passes
}

// Nearest e4m3 value of a number, saturating at +-448. NaN stays NaN.
constexpr float round_to_e4m3(float value) noexcept {
  return round_to_quantum<3, -6>(clamp_magnitude(value, e4m3_max));
}
// Nearest e2m1 value, saturating at +-6.
constexpr float round_to_e2m1(float value) noexcept {
  return round_to_quantum<1, 0>(clamp_magnitude(value, e2m1_max));
}

// Code of a value that is an e4m3 number already (the result of round_to_e4m3).
constexpr std::uint8_t e4m3_code(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  if (is_nan_bits(bits)) return static_cast<std::uint8_t>(sign | 0x7FU);
  const float scaled = std::bit_cast<float>(bits & ~f32_sign_bit) * 0x1p-120F;
  return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(scaled) >> 20));
}

// Code of a value that is an e2m1 number already. The format has no NaN: a NaN gives code 0, its group's scale carries
// the NaN.
constexpr std::uint8_t e2m1_code(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (is_nan_bits(bits)) return 0;
  const float magnitude = std::bit_cast<float>(bits & ~f32_sign_bit);
  const auto sign = static_cast<std::uint8_t>((bits >> 28) & 8U);
  // 0, .5, 1, 1.5 are twice their value; from 2 on each binade has two codes.
  const int doubled = static_cast<int>(magnitude * 2.0F);
  const int index = doubled <= 4 ? doubled : (doubled == 6 ? 5 : (doubled == 8 ? 6 : 7));
  return static_cast<std::uint8_t>(sign | index);
}

// Smallest power of two >= value (value > 0, or NaN/inf, which give NaN): the exponent, plus one if any mantissa bit is
// set.
constexpr std::uint8_t e8m0_ceil(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value) & ~f32_sign_bit;
  const std::uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFFU) != 0 ? 1U : 0U);
  return static_cast<std::uint8_t>(exponent < 255U ? exponent : 255U);
}

}  // namespace tandem::gpu
