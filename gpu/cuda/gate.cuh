// The gate between the two halves of an expert: silu(min(g, limit)) * clamp(u, +-limit).
#pragma once

#include "gpu/cuda/lanes.cuh"

namespace tandem::gpu::cuda {

__device__ inline float gated(float gate, float up, float limit) {
  const float g = at_most(gate, limit), u = at_least(at_most(up, limit), -limit);
  return g / (1.0F + exponential(-g)) * u;
}

// One channel of a use from its unrounded products; g and u are rounded first, the result last if `round`.
__device__ inline float weighted_gate(float gate, float up, float limit, float weight, bool round) {
  return rounded(gated(rounded(gate, round), rounded(up, round), limit) * weight, round);
}

}  // namespace tandem::gpu::cuda
