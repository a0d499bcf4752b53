// Single instructions on a CPU: what gpu/cuda/exl3/instructions.cuh declares.
//
// The matrix instruction adds its sixteen products one after the other in fp32, which is one of the orders that a
// device may choose: kernels that must agree bit for bit do so here if they give it the same operands in the same
// order.
#pragma once

#include "tests/cuda/emulation/device.hpp"

namespace tandem::gpu::cuda {

// What a lane holds of A (registers of two values) and of B.
struct MatrixOperands {
  float a[8], b[4];
};

inline void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  MatrixOperands own;
  for (int i = 0; i < 8; ++i) own.a[i] = emulation::half_value(a[i / 2] >> (i % 2 * 16));
  for (int i = 0; i < 4; ++i) own.b[i] = emulation::half_value((i < 2 ? b0 : b1) >> (i % 2 * 16));
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
