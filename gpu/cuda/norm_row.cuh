// RMSNorm of a row that a block holds, the end that several kernels have in common.
#pragma once

#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda {

struct RowNorm {
  const float* weight = nullptr;
  float eps = 0;
  bool round = false;
};

// rsqrt(mean(u^2) + eps) by one warp, which gets it whole.
__device__ inline float norm_factor(const float* u, std::int64_t cols, float eps) {
  const float sum = dot_in_lanes(cols, [&](int i) { return float2{u[i], u[i]}; });
  return 1.0F / sqrtf(sum / static_cast<float>(cols) + eps);
}

// y = u * rsqrt(mean(u^2) + eps) * w, one rounding at the end; u and y are rows of `cols` floats that may be the same.
// All `threads` threads of the block call it, after a barrier behind the writes of u; the sum is the first warp's.
__device__ inline void norm_row(const float* u, std::int64_t cols, const RowNorm& norm, int threads, float* y) {
  __shared__ float factor;
  if (threadIdx.x < warp_size) {
    const float made = norm_factor(u, cols, norm.eps);
    if (threadIdx.x == 0) factor = made;
  }
  __syncthreads();
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < cols; i += threads) {
    y[i] = rounded(u[i] * factor * norm.weight[i], norm.round);
  }
}

}  // namespace tandem::gpu::cuda
