// Single instructions on a CPU: what gpu/cuda/exl3/instructions.cuh declares.
//
// The matrix instruction adds its sixteen products one after the other in fp32, which is one of the orders that a
// device may choose: kernels that must agree bit for bit do so here if they give it the same operands in the same
// order.
#pragma once

#include "gpu/numeric/bf16.hpp"
#include "tests/cuda/emulation/device.hpp"

namespace tandem::gpu::cuda {

// What a lane holds of A (registers of two values) and of B.
struct MatrixOperands {
  float a[8], b[4];
};

// `value` reads one of the two numbers in the lower half of its argument.
template <class Value>
void multiply_matrices(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                       const Value& value) {
  MatrixOperands own;
  for (int i = 0; i < 8; ++i) own.a[i] = value(a[i / 2] >> (i % 2 * 16));
  for (int i = 0; i < 4; ++i) own.b[i] = value((i < 2 ? b0 : b1) >> (i % 2 * 16));
  const emulation::Slot* lanes = emulation::show(own);
  const int g = emulation::lane() / 4, p = emulation::lane() % 4;
  for (int k = 0; k < 16; ++k) {
    const int holder = k % 8 / 2, upper = k / 8;
    const auto& rows = *reinterpret_cast<const MatrixOperands*>(lanes + 4 * g + holder);
    for (int c = 0; c < 4; ++c) {
      const auto& column = *reinterpret_cast<const MatrixOperands*>(lanes + 4 * (2 * p + c % 2) + holder);
      sum[c] += rows.a[2 * (c / 2 + 2 * upper) + k % 2] * column.b[2 * upper + k % 2];
    }
  }
}

inline void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  multiply_matrices(sum, a, b0, b1, emulation::half_value);
}

inline void multiply_add_bf16(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  multiply_matrices(sum, a, b0, b1, [](unsigned bits) { return std::bit_cast<float>(bits << 16); });
}

// What a lane holds of A and B, and of their 8-bit integers at most four in a register.
struct IntegerOperands {
  std::uint32_t a[4], b[2];
};

inline void multiply_add_s8(std::uint32_t (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const auto value = [](std::uint32_t word, int i) { return static_cast<std::int8_t>(word >> (8 * i) & 255U); };
  const emulation::Slot* lanes = emulation::show(IntegerOperands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const int g = emulation::lane() / 4, p = emulation::lane() % 4;
  for (int k = 0; k < 32; ++k) {
    const int holder = k % 16 / 4, upper = k / 16;
    const auto& rows = *reinterpret_cast<const IntegerOperands*>(lanes + 4 * g + holder);
    for (int c = 0; c < 4; ++c) {
      const auto& column = *reinterpret_cast<const IntegerOperands*>(lanes + 4 * (2 * p + c % 2) + holder);
      sum[c] += static_cast<std::uint32_t>(value(rows.a[c / 2 + 2 * upper], k % 4) * value(column.b[upper], k % 4));
    }
  }
}

inline float add_saturated(float a, float b) {
  const float sum = a + b;
  return sum > 0.0F ? std::min(sum, 1.0F) : 0.0F;
}

inline std::uint32_t sign_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  std::uint32_t signs = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t digit = selector >> (4 * i) & 7U, word = digit < 4 ? a : b;
    if ((word >> (8 * (digit % 4) + 7) & 1U) != 0) signs |= 255U << (8 * i);
  }
  return signs;
}

inline float power_of_two(float x) {
  return x < -126.0F ? 0.0F : std::exp2(x);
}

inline std::uint32_t multiply_bf16(std::uint32_t a, std::uint32_t b) {
  const auto value = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const std::uint32_t low = float_to_bf16(value(a << 16) * value(b << 16));
  return low | std::uint32_t{float_to_bf16(value(a & 0xFFFF0000U) * value(b & 0xFFFF0000U))} << 16;
}

// The 16-bit number at row `row` and column `column` of matrix `matrix`, from what all lanes showed.
inline std::uint32_t matrix_value(const emulation::Slot* rows, int matrix, int row, int column) {
  const unsigned char* from = nullptr;
  std::memcpy(&from, rows + 8 * matrix + row, sizeof from);
  std::uint16_t value = 0;
  std::memcpy(&value, from + 2 * column, sizeof value);
  return value;
}

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const emulation::Slot* rows = emulation::show(row);
  const int g = emulation::lane() / 4, p = emulation::lane() % 4;
  for (int m = 0; m < 4; ++m) to[m] = matrix_value(rows, m, g, 2 * p) | matrix_value(rows, m, g, 2 * p + 1) << 16;
}

inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
  const emulation::Slot* rows = emulation::show(row);
  const int g = emulation::lane() / 4, p = emulation::lane() % 4;
  for (int m = 0; m < 4; ++m) to[m] = matrix_value(rows, m, 2 * p, g) | matrix_value(rows, m, 2 * p + 1, g) << 16;
}

inline void copy_async(void* shared, const void* global, bool is_there) {
  emulation::copy_async(shared, is_there ? global : nullptr, 16);
}

inline void end_copy_stage() {
  emulation::commit_copies();
}

inline void wait_for_copies() {
  emulation::commit_copies();
  emulation::wait_for_copies(0);
}

template <int left>
void wait_for_copy_stages() {
  emulation::wait_for_copies(left);
}

inline uint4 load_once(const uint4* address) {
  return *address;
}

}  // namespace tandem::gpu::cuda
