// Products of few outputs with long rows: the mHC mix, the router, small projections.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/matrix.hpp"

namespace tandem::gpu::cuda {

struct ChainCall {
  Tensor x;
  Matrix w;
  WeightFormat format;  // f32 or bf16
  bool round;
  Tensor y;
  Tensor squares;  // [rows, 1]: the sum of x^2 of every row; empty if it is not wanted
};

inline constexpr std::int64_t chain_rows_many = 32;  // from here on square sums are better made by themselves

// Whether chain_product takes these; the bits are those of `multiply`.
bool is_chain(const Tensor& x, const Linear& weight);
cudaError_t chain_product(cudaStream_t stream, const ChainCall& call);

}  // namespace tandem::gpu::cuda
