// One row of an Engram table: 8-bit floating-point codes with one power-of-two scale per 32 columns, and its exact
// value.
//
// Codes and scales have types of their own that do not convert to numbers: reading a code as an integer 0..255 gives
// fluent but wrong text, so that mistake must not compile. The only way to a value is dequantise(), which rounds to
// bf16 as the reference does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::engram {

// A number of the OCP format E4M3 "fn": bias 7, subnormals, no infinities, 0x7F and 0xFF are NaN, largest value 448.
enum class E4m3 : std::uint8_t {};
// A scale of the OCP format E8M0: the byte is the exponent field of the float 2^(byte - 127).
enum class E8m0 : std::uint8_t {};

// Number of a row inside one layer's table. 32 bits hold the released tables (384 M rows); byte offsets need 64.
enum class RowId : std::int32_t {};

// "There is nothing to look up here" (position inside an image): reads as a row of zeros and costs no I/O.
inline constexpr RowId no_row{-1};

constexpr std::int64_t index_of(RowId id) noexcept {
  return static_cast<std::int64_t>(id);
}

inline constexpr int scale_columns = 32;  // columns that share a scale

// Sizes of one row; `head_dim` is a multiple of scale_columns.
struct RowShape {
  int head_dim = 0;
  int scales() const noexcept { return head_dim / scale_columns; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(head_dim + scales()); }
  bool operator==(const RowShape&) const = default;
};

// Where n rows go: codes [n][head_dim], scales [n][head_dim/32].
struct RowBlock {
  std::span<E4m3> codes;
  std::span<E8m0> scales;
};

// Codes and scales that stand for no number. A row with one of them is damaged: a store never returns it.
constexpr bool is_nan(E4m3 code) noexcept {
  return (static_cast<unsigned>(code) & 0x7FU) == 0x7FU;
}
constexpr bool is_nan(E8m0 scale) noexcept {
  return static_cast<unsigned>(scale) == 0xFFU;
}

// Returns the value of a code; NaN for 0x7F and 0xFF.
float to_float(E4m3 code) noexcept;
// Returns 2^(byte - 127) by placing the byte in a float's exponent field, as the reference does: 0 gives 0.0, 255 gives
// infinity.
float to_float(E8m0 scale) noexcept;
// Rounds to the nearest bf16, ties to even; NaN stays NaN.
float round_to_bf16(float value) noexcept;

// out[j] = bf16(code[j] * 2^(scale[j/32] - 127)) for any whole number of rows laid end to end.
// Requires codes.size() == out.size() == scales.size() * 32.
void dequantise(std::span<const E4m3> codes, std::span<const E8m0> scales, std::span<float> out) noexcept;

}  // namespace tandem::engram
