// Products of few outputs with long rows: the mHC mix, the router, small projections.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/matrix.hpp"
#include "gpu/cuda/mhc_kernels.hpp"

namespace tandem::gpu::cuda {

struct ChainCall {
  Tensor x;
  Matrix w;
  WeightFormat format;  // f32 or bf16
  bool round;
  Tensor y;
  Tensor squares;  // [rows, 1]: the sum of x^2 of every row; empty if it is not wanted
};

inline constexpr std::int64_t chain_rows_many =
    32;  // from here on square sums are made by themselves, or by chain_tile

// Whether chain_product takes these; the bits are those of `multiply`.
bool is_chain(const Tensor& x, const Linear& weight);
cudaError_t chain_product(cudaStream_t stream, const ChainCall& call);

// The same for many rows, with square sums for f32 only: what chain_product takes where is_chain_tile says so.
bool is_chain_tile(const ChainCall& call);
cudaError_t chain_tile(cudaStream_t stream, const ChainCall& call);

// The same and, by the last block of a row, split_mix or choose_experts of the products. One ticket a row, 0 before and
// after, which nobody else uses meanwhile.
inline constexpr std::int64_t ticket_rows_most = 64;
bool is_chain_mix(const ChainCall& call);
cudaError_t chain_mix(cudaStream_t stream, const ChainCall& call, const MixCall& mix, unsigned* tickets);
bool is_chain_route(const ChainCall& call, const RouteWork& route);
cudaError_t chain_route(cudaStream_t stream, const ChainCall& call, const RouteWork& route, unsigned* tickets);

}  // namespace tandem::gpu::cuda
