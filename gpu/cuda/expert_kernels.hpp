// The router and the mixture of experts (contracts: Ops::route and Ops::moe).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/cuda/matrix.hpp"

namespace tandem::gpu::cuda {

inline constexpr int experts_max = 1024;

struct RouteWork {
  Tensor products;    // [T, experts]: x gate^T
  const float* bias;  // may be null
  float temperature, scaling;
  Tensor ids, weights;  // [T, k]
};
cudaError_t choose_experts(cudaStream_t stream, const RouteWork& work);

// The matrices of one expert on the device.
struct ExpertMatrices {
  Matrix w1, w3;
  Matrix w2[2];  // K slices
};

// Some uses of one expert: uses[first .. first + count).
struct ExpertTile {
  std::int32_t expert = 0, first = 0, count = 0;
};

// Uses of all experts, expert by expert: a use is t * slots + j. Made on the device from the routing.
struct ExpertPlan {
  std::int32_t* uses = nullptr;  // [T * slots]
  ExpertTile* tiles = nullptr;   // [tiles_max]
  std::int32_t* tile_count = nullptr;
  std::int64_t tiles_max = 0;
  // For kernels that keep rows in the order of `uses`; each [T * slots] or null.
  std::int32_t* source_of_use = nullptr;    // row of x of uses[i]
  std::int32_t* expert_of_use = nullptr;    // expert of uses[i]
  std::int32_t* position_of_use = nullptr;  // i of use uses[i]
};
cudaError_t plan_experts(cudaStream_t stream, const Tensor& ids, int experts, int tile_rows, const ExpertPlan& plan);

// h[use] = routing weight * silu(min(g, limit)) * clamp(u, +-limit), g and u rounded first, h rounded at last if
// `round`.
struct RaiseWork {
  Tensor x;
  const ExpertMatrices* experts;
  WeightFormat format;
  ExpertPlan plan;
  int slots, tile_rows;  // tile_rows is 1 or 4
  const float* weights;  // [T * slots]
  float limit;
  bool round;
  Tensor h;  // [T * slots, inter]
};
cudaError_t raise(cudaStream_t stream, const RaiseWork& work);

// The same from finished products of the uses in plan order: h[i] belongs to uses[i].
struct GateUsesWork {
  Tensor gate, up;
  const std::int32_t* uses;
  const float* weights;  // [T * slots]
  float limit;
  bool round;
  Tensor h;
};
cudaError_t gate_uses(cudaStream_t stream, const GateUsesWork& work);

// products[s * uses + use] = h[use, slice s] w2_s^T, FP32 and unrounded.
struct LowerWork {
  Tensor h;
  const ExpertMatrices* experts;
  WeightFormat format;
  ExpertPlan plan;
  int tile_rows, slices;
  Tensor products;  // [slices * uses, D]
};
cudaError_t lower(cudaStream_t stream, const LowerWork& work);

// The same gate for rows of one expert: h = silu(min(g, limit)) * clamp(u, +-limit), rounded if `round`.
cudaError_t swiglu(cudaStream_t stream, const Tensor& gate, const Tensor& up, float limit, bool round, const Tensor& h);

// out[s * T + t] = sum over slots j of products[s, t * slots + j], then shared[s, t]; or, finished, with every product
// summed over slices and rounded first, one block of rounded rows.
struct CombineWork {
  Tensor products;                      // [slices * T * slots, D]
  const std::int32_t* position_of_use;  // where the product of a use lies; null: at its own number
  Tensor shared;                        // [slices * T, D] or empty
  int slots, slices;
  bool is_finished, round;
  std::int64_t rows;  // T
  Tensor out;         // rows s * out_stride_rows + t
  std::int64_t out_stride_rows;
};
cudaError_t combine(cudaStream_t stream, const CombineWork& work);

}  // namespace tandem::gpu::cuda
