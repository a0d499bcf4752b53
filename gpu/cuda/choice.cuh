// The router's scores and the choice of the best: what the kernels that choose share.
#pragma once

#include <math_constants.h>

#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda {

// log(1 + e^x), linear above 20; in double, rounded once per step as a careful FP32 library does.
__device__ inline float softplus(float x) {
  if (x > 20.0F) return x;
  const auto power = static_cast<float>(exp(static_cast<double>(x)));
  return static_cast<float>(log1p(static_cast<double>(power)));
}

struct Candidate {
  float score;
  std::int32_t expert;  // -1: none
};

__device__ inline Candidate better(Candidate a, Candidate b) {
  if (b.expert < 0) return a;
  if (a.expert < 0) return b;
  const bool takes_b = b.score > a.score || (b.score == a.score && b.expert < a.expert);
  return takes_b ? b : a;
}

__device__ inline float score_of(const RouteWork& work, std::int64_t row, int expert) {
  return sqrtf(softplus(row_of(work.products, row)[expert] / work.temperature));
}

// A NaN is never better than anything.
__device__ inline float biased_score(const RouteWork& work, float score, int expert) {
  const float biased = work.bias == nullptr ? score : score + work.bias[expert];
  return biased != biased ? -CUDART_INF_F : biased;
}

inline constexpr int choice_experts_max = 512, choice_slots_max = warp_size;

// The choice of one row by one warp, from the scores of its experts in shared memory.
__device__ inline void choose_in_warp(const RouteWork& work, std::int64_t row, const float* scores) {
  constexpr int own_max = choice_experts_max / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size, experts = static_cast<int>(work.products.cols);
  float biased[own_max];
  unsigned gone = 0;  // bit i: expert lane + 32 i is chosen or does not exist
#pragma unroll
  for (int i = 0; i < own_max; ++i) {
    const int expert = lane + i * warp_size;
    biased[i] = expert < experts ? biased_score(work, scores[expert], expert) : -CUDART_INF_F;
    if (expert >= experts) gone |= 1U << i;
  }
  float sum = 0;
  int chosen = 0;  // of slot `lane`
  for (int j = 0; j < static_cast<int>(work.ids.cols); ++j) {
    Candidate best{-CUDART_INF_F, -1};
#pragma unroll
    for (int i = 0; i < own_max; ++i) {
      if ((gone >> i & 1U) == 0) best = better(best, {biased[i], lane + i * warp_size});
    }
    for (int step = warp_size / 2; step > 0; step /= 2) {
      const float score = __shfl_xor_sync(full_warp, best.score, step);
      const std::int32_t expert = __shfl_xor_sync(full_warp, best.expert, step);
      best = better(best, {score, expert});
    }
    if (best.expert % warp_size == lane) gone |= 1U << best.expert / warp_size;
    sum += scores[best.expert];
    if (lane == j) chosen = best.expert;
  }
  if (lane >= work.ids.cols) return;
  (static_cast<std::int32_t*>(work.ids.data) + row * work.ids.stride)[lane] = chosen;
  row_of(work.weights, row)[lane] = scores[chosen] / (sum + 1e-20F) * work.scaling;
}

}  // namespace tandem::gpu::cuda
