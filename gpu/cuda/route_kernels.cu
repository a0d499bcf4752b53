// Router: s = sqrt(softplus(z / temperature)); the best k of s + bias; weights s / (sum + 1e-20) * scaling.
//
// Shapes   z [T, experts] FP32. Up to 512 experts of which up to 32 are chosen: a warp a row. Else a block a row, one
//          thread an expert, up to 1024.
// Order    ties go to the lower id; the sum of the chosen ascends over the slots.
// Bytes    4 * experts a row.
// Limit    exp and log1p in double: some microseconds for 2048 rows.
// Plain    gpu/cpu/route_ops.cpp; ids are equal, weights within the last bits of the two libraries' exp and log1p.
#include "gpu/cuda/choice.cuh"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda {
namespace {

// The best of all threads of the block, known to all.
__device__ Candidate best_of_block(Candidate own, Candidate* shared) {
  for (int step = warp_size / 2; step > 0; step /= 2) {
    const float score = __shfl_xor_sync(full_warp, own.score, step);
    const std::int32_t expert = __shfl_xor_sync(full_warp, own.expert, step);
    own = better(own, {score, expert});
  }
  __syncthreads();
  if (threadIdx.x % warp_size == 0) shared[threadIdx.x / warp_size] = own;
  __syncthreads();
  const unsigned lane = threadIdx.x % warp_size;
  own = lane < blockDim.x / warp_size ? shared[lane] : Candidate{-CUDART_INF_F, -1};
  for (int step = warp_size / 2; step > 0; step /= 2) {
    const float score = __shfl_xor_sync(full_warp, own.score, step);
    const std::int32_t expert = __shfl_xor_sync(full_warp, own.expert, step);
    own = better(own, {score, expert});
  }
  return own;
}

__global__ void choose_kernel(RouteWork work) {
  begin_dependent();
  __shared__ Candidate shared[experts_max / warp_size];
  __shared__ float scores[experts_max];
  const int expert = static_cast<int>(threadIdx.x);
  const bool exists = expert < work.products.cols;
  Candidate own{-CUDART_INF_F, -1};
  if (exists) {
    scores[expert] = score_of(work, row_of(work.products, blockIdx.x)[expert]);
    own = {biased_score(work, scores[expert], expert), expert};
  }
  auto* ids = static_cast<std::int32_t*>(work.ids.data) + blockIdx.x * work.ids.stride;
  float* weights = row_of(work.weights, blockIdx.x);
  float sum = 0;
  for (std::int64_t j = 0; j < work.ids.cols; ++j) {
    const Candidate best = best_of_block(own, shared);
    if (own.expert == best.expert) own.expert = -1;
    sum += scores[best.expert];
    if (threadIdx.x == 0) ids[j] = best.expert;
  }
  __syncthreads();
  if (threadIdx.x < work.ids.cols) {
    const std::int64_t j = threadIdx.x;
    weights[j] = scores[ids[j]] / (sum + 1e-20F) * work.scaling;
  }
}

constexpr int choosing_warps = 4;  // of a block, a row each

__global__ void __launch_bounds__(choosing_warps* warp_size) choose_in_warps_kernel(RouteWork work) {
  begin_dependent();
  __shared__ float scores[choosing_warps][choice_experts_max];
  __shared__ unsigned biased[choosing_warps][choice_experts_max];
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t row = blockIdx.x * std::int64_t{choosing_warps} + warp;
  if (row >= work.products.rows) return;
  const float* products = row_of(work.products, row);
  for (int expert = lane; expert < work.products.cols; expert += warp_size) {
    const float score = score_of(work, products[expert]);
    scores[warp][expert] = score;
    biased[warp][expert] = ordered(biased_score(work, score, expert));
  }
  __syncwarp();
  choose_in_warp(work, row, scores[warp], biased[warp]);
}

bool fits_warps(const RouteWork& work) {
  return work.products.cols <= choice_experts_max && work.ids.cols <= choice_slots_max &&
         work.ids.cols <= work.products.cols;
}

}  // namespace

cudaError_t choose_experts(cudaStream_t stream, const RouteWork& work) {
  if (fits_warps(work)) {
    const auto blocks = static_cast<unsigned>((work.products.rows + choosing_warps - 1) / choosing_warps);
    return launch_dependent(stream, {dim3(blocks), choosing_warps * warp_size, 1, 0}, choose_in_warps_kernel, work);
  }
  if (work.products.cols > experts_max) return cudaErrorNotSupported;
  const auto threads = static_cast<int>((work.products.cols + warp_size - 1) / warp_size * warp_size);
  return launch_dependent(stream, {dim3(static_cast<unsigned>(work.products.rows)), threads, 1, 0}, choose_kernel,
                          work);
}

}  // namespace tandem::gpu::cuda
