// BF16 and FP16 as bit patterns: conversions to and from FP32 with round-to-nearest-even, usable on any host.
//
// A value is stored as std::uint16_t; the formats are not types of their own because they only exist in files and
// records: arithmetic is FP32 everywhere.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem::gpu {

constexpr float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Rounds to nearest even. A NaN stays a NaN (its payload is cut and the quiet bit set).
constexpr std::uint16_t float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float round_to_bf16(float value) noexcept {
  return bf16_to_float(float_to_bf16(value));
}

// FP16: 5 exponent bits, subnormals and infinities included.
constexpr float f16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13));
  // Exponent and mantissa moved into place read 2^-112 times the value, subnormals included; the product is exact.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

// Rounds to nearest even; beyond 65504 + half a step it becomes an infinity.
constexpr std::uint16_t float_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // below 2^-14: multiples of 2^-24; the addition does the rounding
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;  // 0.5 has an ulp of 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

}  // namespace tandem::gpu
