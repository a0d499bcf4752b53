// Coefficients of one row from its raw products: pre = sigmoid + eps, post = 2 sigmoid, comb = Sinkhorn(softmax).
#pragma once

#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/mhc_kernels.hpp"

namespace tandem::gpu::cuda {

// Sum over a row (step 1) or a column (step mult) of the C x C matrix whose element j * C + k thread j * C + k holds.
template <int fixed>
__device__ float sum_line(float a, int first, int step, int any) {
  const int mult = fixed > 0 ? fixed : any;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < mult; ++i) sum += __shfl_sync(full_warp, a, first + i * step);
  return sum;
}

__device__ inline float most_of_row(float a, int first, int mult) {
  float most = __shfl_sync(full_warp, a, first);
  for (int i = 1; i < mult; ++i) {
    const float next = __shfl_sync(full_warp, a, first + i);
    most = most < next ? next : most;
  }
  return most;
}

// Softmax over rows, then alternating normalisations that end with the columns.
template <int fixed>
__device__ float sinkhorn(float a, const MixCall& call) {
  const int mult = fixed > 0 ? fixed : call.mult, lane = static_cast<int>(threadIdx.x) % warp_size;
  const int own = lane < mult * mult ? lane : 0;
  const int row = own / mult * mult, column = own % mult;
  a = exponential(a - most_of_row(a, row, mult));
  a = a / sum_line<fixed>(a, row, 1, mult) + call.eps;
  a /= sum_line<fixed>(a, column, mult, mult) + call.eps;
  for (int i = 1; i < call.iterations; ++i) {
    a /= sum_line<fixed>(a, row, 1, mult) + call.eps;
    a /= sum_line<fixed>(a, column, mult, mult) + call.eps;
  }
  return a;
}

// By one warp; `fixed` is the number of streams, 0 if it is not known here.
template <int fixed>
__device__ void split_row(const MixCall& call, std::int64_t row) {
  const float mean = row_of(call.squares, row)[0] / static_cast<float>(call.width);
  const int mult = fixed > 0 ? fixed : call.mult, i = static_cast<int>(threadIdx.x) % warp_size;
  const float factor = 1.0F / sqrtf(mean + call.norm_eps);
  const float* raw = row_of(call.raw, row);
  const auto coefficient = [&](int at, int part) { return factor * raw[at] * call.scale[part] + call.base[at]; };
  if (i < mult) {
    row_of(call.pre, row)[i] = sigmoid(coefficient(i, 0)) + call.eps;
    row_of(call.post, row)[i] = 2.0F * sigmoid(coefficient(mult + i, 1));
  }
  const bool holds_element = i < mult * mult;
  __syncwarp();
  const float a = sinkhorn<fixed>(holds_element ? coefficient(2 * mult + i, 2) : 0.0F, call);
  if (holds_element) row_of(call.comb, row)[i] = a;
}

}  // namespace tandem::gpu::cuda
