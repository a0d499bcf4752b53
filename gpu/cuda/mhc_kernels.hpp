// Kernels of the manifold hyper-connections: coefficients from raw products, collapse, expansion (contracts:
// gpu/ops.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

inline constexpr int mhc_streams_max = 5;  // C * C coefficients share one warp

struct MixCall {
  Tensor raw;          // [T, (2 + C) C]: streams fn^T, not yet divided by the norm
  Tensor squares;      // [T, 1]: sum of squares of the streams
  std::int64_t width;  // C * D
  const float *scale, *base;
  int mult, iterations;
  float norm_eps, eps;
  Tensor pre, post, comb;
};
// squares[r] = sum of x[r, :]^2 in the 16-lane order.
cudaError_t square_sums(cudaStream_t stream, const Tensor& x, const Tensor& squares);
cudaError_t split_mix(cudaStream_t stream, const MixCall& call);
// What split_mix takes for many rows of four streams.
bool is_mix_of_many(const MixCall& call);
cudaError_t mix_many(cudaStream_t stream, const MixCall& call);

cudaError_t collapse(cudaStream_t stream, const Tensor& streams, const Tensor& pre, bool round, const Tensor& out);

struct ExpandCall {
  Tensor streams, y, post, comb;
  bool round;
};
cudaError_t expand(cudaStream_t stream, const ExpandCall& call);

}  // namespace tandem::gpu::cuda
