// What the passes over one layer of experts share: its table of matrices and the numbers of one call.
#pragma once

#include <vector>

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::cuda {

// One matrix of every EXL3 expert.
struct Exl3Bank {
  Buffer table;                  // Exl3Matrix [experts]
  std::vector<Exl3Shape> kinds;  // one launch each: experts may differ in bits
};

// What MoeWeights::packed holds.
struct ExpertTable {
  Buffer matrices;             // ExpertMatrices [experts]; empty for EXL3
  Exl3Bank gate, up;           // EXL3 only, as is `down`
  std::vector<Exl3Bank> down;  // K slices
};

// The routed part of one chunk of rows, before it is summed.
struct RoutedProducts {
  Tensor products;                                // [slices * uses, D]
  const std::int32_t* position_of_use = nullptr;  // see CombineWork
};

// Routed products of EXL3 experts for rows of x. weights.packed must be the table.
RoutedProducts exl3_routed_products(CudaContext& context, const MoeCall& call, const Tensor& x, const Routing& routing);

// Builds the banks of an EXL3 layer, whose matrices are packed and placed. Errors go to the stream: invalid_argument if
// only some experts are EXL3 or their shapes differ.
void prepare_exl3_experts(CudaContext& context, const MoeWeights& weights, ExpertTable& table);

}  // namespace tandem::gpu::cuda
