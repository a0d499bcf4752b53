// Device building blocks: the order of summation, e^x, rounding to bf16, rows of tensors.
//
// Every sum over n values uses 16 lanes: lane l adds the elements with index = l mod 16 in ascending order with fused
// multiply-adds, the lanes are added as a tree of halves. That is the order of the CPU backend, so both give the same
// bits. A half-warp holds the 16 lanes of one sum; two sums run side by side in a warp.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "gpu/numeric/bf16.hpp"
#include "gpu/numeric/minifloat.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

inline constexpr int lanes = 16;
inline constexpr int warp_size = 32;
inline constexpr unsigned full_warp = 0xFFFFFFFFU;

__device__ inline float* row_of(const Tensor& x, std::int64_t r) {
  return static_cast<float*>(x.data) + r * x.stride;
}

// Adds the 16 lanes of each half-warp; all threads of the warp must take part and all get their half's sum.
__device__ inline float add_lanes(float lane) {
  for (int step = lanes / 2; step > 0; step /= 2) lane += __shfl_xor_sync(full_warp, lane, step);
  return lane;
}

// Returns sum over i < n of term(i, sum so far) in the 16-lane order, for each half-warp by itself.
template <class Term>
__device__ float sum_in_lanes(std::int64_t n, const Term& term) {
  float sum = 0;
#pragma unroll 16
  for (std::int64_t i = threadIdx.x % lanes; i < n; i += lanes) sum = term(i, sum);
  return add_lanes(sum);
}

// Returns the sum over i < n of the product of the two values load(i) in the same order. Sixteen elements of a lane are
// loaded while the chain of the multiply-adds of the sixteen before runs: a chain that waits for each load takes eight
// times as long.
template <class Load>
__device__ float dot_in_lanes(std::int64_t n, const Load& load) {
  constexpr int ahead = 16;
  const int count = static_cast<int>(n);
  int i = threadIdx.x % lanes;
  float sum = 0;
  float2 next[ahead];
  const auto fetch = [&](int from) {
    if (from + (ahead - 1) * lanes >= count) return false;
#pragma unroll
    for (int a = 0; a < ahead; ++a) next[a] = load(from + a * lanes);
    return true;
  };
  bool is_full = fetch(i);
  while (is_full) {
    float2 values[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) values[a] = next[a];
    i += ahead * lanes;
    is_full = fetch(i);
#pragma unroll
    for (int a = 0; a < ahead; ++a) sum = fmaf(values[a].x, values[a].y, sum);
  }
  for (; i < count; i += lanes) {
    const float2 value = load(i);
    sum = fmaf(value.x, value.y, sum);
  }
  return add_lanes(sum);
}

// e^x by the same steps as the CPU backend: 2^n e^r, Taylor of degree 7; 0 below -104, infinity above 88.73.
__device__ inline float exponential(float x) {
  const float bounded = fminf(fmaxf(x, -104.0F), 89.0F);
  const float n = rintf(bounded * 1.44269504F);
  float r = fmaf(n, -0.693145752F, bounded);
  r = fmaf(n, -1.42860677e-6F, r);
  float p = 1.0F / 5040;
  p = fmaf(p, r, 1.0F / 720);
  p = fmaf(p, r, 1.0F / 120);
  p = fmaf(p, r, 1.0F / 24);
  p = fmaf(p, r, 1.0F / 6);
  p = fmaf(p, r, 0.5F);
  p = fmaf(p, r, 1.0F);
  p = fmaf(p, r, 1.0F);
  const int whole = static_cast<int>(n), half = whole >> 1;
  const float result = p * __int_as_float((half + 127) << 23) * __int_as_float((whole - half + 127) << 23);
  if (x < -104.0F) return 0.0F;
  return x != x ? x : result;
}

__device__ inline float sigmoid(float z) {
  return 1.0F / (1.0F + exponential(-z));
}

// min and max that keep a NaN first operand: a broken row stays visibly broken.
__device__ inline float at_most(float x, float limit) {
  return x > limit ? limit : x;
}
__device__ inline float at_least(float x, float limit) {
  return x < limit ? limit : x;
}

__device__ inline float rounded(float x, bool round) {
  return round ? round_to_bf16(x) : x;
}

// ---- element by element: a block has 256 columns of one row ----

inline constexpr int row_threads = 256;

inline dim3 row_grid(std::int64_t rows, std::int64_t cols) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((cols + row_threads - 1) / row_threads)};
}

// Calls body(i) for this block's columns; blockIdx.x is the row.
template <class Body>
__device__ void for_each_column(std::int64_t cols, const Body& body) {
  const std::int64_t i = blockIdx.y * std::int64_t{row_threads} + threadIdx.x;
  if (i < cols) body(i);
}

}  // namespace tandem::gpu::cuda
