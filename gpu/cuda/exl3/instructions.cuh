// Single instructions that the language has no name for, as named functions. The emulation of tests/cuda has its own
// version of this file, of cluster.cuh, warpgroup.cuh and launch.hpp; the kernels have no other assembly.
#pragma once

#include <cstdint>

namespace tandem::gpu::cuda {

// sum += A B, m16n8k16 of fp16 with fp32 sums. Lane 4g + p holds of A rows g, g + 8 and columns 2p, 2p + 1, 2p + 8,
// 2p + 9; of B the same rows of column g; of the sums rows g, g + 8 and columns 2p, 2p + 1.
__device__ __forceinline__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for bf16.
__device__ __forceinline__ void multiply_add_bf16(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                  std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// sum += A B, m16n8k32 of 8-bit integers with 32-bit sums. Lane 4g + p holds of A rows g, g + 8 and columns 4p .. 4p +
// 3, then the same rows and 4p + 16 .. 4p + 19; of B the same rows of column g; of the sums what it holds of fp16's.
__device__ __forceinline__ void multiply_add_s8(std::uint32_t (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The sum, at least 0 and at most 1.
__device__ __forceinline__ float add_saturated(float a, float b) {
  float sum;
  asm("add.rn.sat.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

// Byte i of the result has the sign of a byte in all of its bits: of the one that digit i of `selector` names, 8 and up
// of a, 12 and up of b.
__device__ __forceinline__ std::uint32_t sign_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  std::uint32_t signs;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(signs) : "r"(a), "r"(b), "r"(selector));
  return signs;
}

// 2^x within 2^-22 of it; zero below 2^-126.
__device__ __forceinline__ float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// The products of two pairs of bf16, subnormal numbers included.
__device__ __forceinline__ std::uint32_t multiply_bf16(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// Four matrices of 8 x 8 16-bit numbers from shared memory; lane 8m + r names row r of matrix m, 16 bytes. Lane 4g + p
// gets of each matrix row g, columns 2p and 2p + 1.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// The same transposed: column g, rows 2p and 2p + 1.
__device__ __forceinline__ void load_transposed(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// Starts copying 16 bytes to shared memory; zeros if they are not there, when `global` is not read.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool is_there) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(address), "l"(global), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// This thread's copies since the last call are one stage, which may be empty.
__device__ __forceinline__ void end_copy_stage() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all stages but the newest `left`.
template <int left>
__device__ __forceinline__ void wait_for_copy_stages() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

// A load of what is read once: it does not stay in the first-level cache.
__device__ __forceinline__ uint4 load_once(const uint4* address) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

}  // namespace tandem::gpu::cuda
