// Exact values of E4M3 codes and E8M0 scales, from tables and bit fields: no rounding happens before the final one to
// bf16.
#include "engram/row.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <limits>

namespace tandem::engram {
namespace {

constexpr float power_of_two(int exponent) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

constexpr float decode_e4m3(unsigned byte) noexcept {
  const unsigned exponent = byte >> 3 & 15U;
  const unsigned mantissa = byte & 7U;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? static_cast<float>(mantissa) * power_of_two(-9)
                              : static_cast<float>(8 + mantissa) * power_of_two(static_cast<int>(exponent) - 10);
  return (byte & 0x80U) != 0 ? -magnitude : magnitude;
}

constexpr std::array<float, 256> e4m3_values = [] {
  std::array<float, 256> values{};
  for (unsigned byte = 0; byte < 256; ++byte) values[byte] = decode_e4m3(byte);
  return values;
}();

}  // namespace

float to_float(E4m3 code) noexcept {
  return e4m3_values[static_cast<std::uint8_t>(code)];
}

float to_float(E8m0 scale) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23);
}

float round_to_bf16(float value) noexcept {
  if (value != value) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half_minus_tie = 0x7FFFU + (bits >> 16 & 1U);
  return std::bit_cast<float>((bits + half_minus_tie) & 0xFFFF0000U);
}

void dequantise(std::span<const E4m3> codes, std::span<const E8m0> scales, std::span<float> out) noexcept {
  assert(codes.size() == out.size() && codes.size() == scales.size() * scale_columns);
  for (std::size_t group = 0; group < scales.size(); ++group) {
    const float scale = to_float(scales[group]);
    const std::size_t first = group * scale_columns;
    for (std::size_t j = first; j < first + scale_columns; ++j) out[j] = round_to_bf16(to_float(codes[j]) * scale);
  }
}

}  // namespace tandem::engram
