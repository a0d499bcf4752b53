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

// The score of an expert whose product with the row is z.
__device__ inline float score_of(const RouteWork& work, float z) {
  return sqrtf(softplus(z / work.temperature));
}

// A NaN is never better than anything.
__device__ inline float biased_score(const RouteWork& work, float score, int expert) {
  const float biased = work.bias == nullptr ? score : score + work.bias[expert];
  return biased != biased ? -CUDART_INF_F : biased;
}

inline constexpr int choice_experts_max = 512, choice_slots_max = warp_size;

// Integers that are ordered as the numbers are, all above 0; zeros are one number.
__device__ inline unsigned ordered(float x) {
  const unsigned bits = __float_as_uint(x + 0.0F);
  return (bits & f32_sign_bit) != 0 ? ~bits : bits | f32_sign_bit;
}

// The choice of one row by one warp, from the scores of its experts in shared memory and what `ordered` makes of the
// biased ones.
__device__ inline void choose_in_warp(const RouteWork& work, std::int64_t row, const float* scores,
                                      const unsigned* biased) {
  constexpr int own_max = choice_experts_max / warp_size;
  const unsigned lane = threadIdx.x % warp_size, experts = static_cast<unsigned>(work.products.cols);
  unsigned keys[own_max];  // 0: chosen, or there is no such expert
#pragma unroll
  for (int i = 0; i < own_max; ++i) {
    const unsigned expert = lane + static_cast<unsigned>(i) * warp_size;
    keys[i] = expert < experts ? biased[expert] : 0;
  }
  float sum = 0;
  unsigned chosen = 0;  // of slot `lane`
  for (unsigned j = 0; j < work.ids.cols; ++j) {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < own_max; ++i) most = most < keys[i] ? keys[i] : most;
    most = __reduce_max_sync(full_warp, most);
    unsigned first = experts;  // of those that have the most
#pragma unroll
    for (int i = own_max - 1; i >= 0; --i) {
      if (keys[i] == most) first = lane + static_cast<unsigned>(i) * warp_size;
    }
    first = ~__reduce_max_sync(full_warp, ~first);
#pragma unroll
    for (int i = 0; i < own_max; ++i) {
      if (lane + static_cast<unsigned>(i) * warp_size == first) keys[i] = 0;
    }
    sum += scores[first];
    if (lane == j) chosen = first;
  }
  if (lane >= work.ids.cols) return;
  (static_cast<std::int32_t*>(work.ids.data) + row * work.ids.stride)[lane] = static_cast<std::int32_t>(chosen);
  row_of(work.weights, row)[lane] = scores[chosen] / (sum + 1e-20F) * work.scaling;
}

}  // namespace tandem::gpu::cuda
