// What the passes over one layer of experts share: its table of matrices and the numbers of one call.
#pragma once

#include <functional>
#include <vector>

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::cuda {

// The shared expert runs beside the routed ones; where those fill the device by themselves, before their products.
inline constexpr int shared_side = static_cast<int>(Ops::Side::branch);

// One matrix of every EXL3 expert.
struct Exl3Bank {
  Buffer table;                  // Exl3Matrix [experts]
  std::vector<Exl3Shape> kinds;  // one launch each: experts may differ in bits
};

// Whether two banks have the same kinds in the same order: then their products share launches.
bool same_kinds(const Exl3Bank& a, const Exl3Bank& b);

// What MoeWeights::packed holds.
struct ExpertTable {
  Buffer matrices;             // ExpertMatrices [experts]; empty for EXL3
  Exl3Bank gate, up;           // EXL3 only, as is `down`
  std::vector<Exl3Bank> down;  // K slices
  // The same matrices cut into parts of their outputs: [slice * expert_column_parts + part]; empty if D has none.
  std::vector<Exl3Bank> down_parts;
};

// The routed part of one chunk of rows, before it is summed: columns `column` .. of D.
struct RoutedProducts {
  Tensor products;                                // [slices * uses, columns]
  const std::int32_t* position_of_use = nullptr;  // see CombineWork
  std::int64_t column = 0;
};
// What sums them; their memory is given back when it returns.
using SumProducts = std::function<void(const RoutedProducts&)>;

// Routed products of EXL3 experts for rows of x, in one part or several of their columns. weights.packed must be the
// table.
void exl3_routed_products(CudaContext& context, const MoeCall& call, const Tensor& x, const Routing& routing,
                          const SumProducts& sum);

// The same for few rows, without a plan; a row has the same bits.
bool are_few_uses(const Routing& routing);
RoutedProducts products_of_few(CudaContext& context, const ExpertTable& table, const MoeCall& call, const Tensor& x,
                               const Routing& routing);

// Builds the banks of an EXL3 layer, whose matrices are packed and placed. Errors go to the stream: invalid_argument if
// only some experts are EXL3 or their shapes differ.
void prepare_exl3_experts(CudaContext& context, const MoeWeights& weights, ExpertTable& table);

}  // namespace tandem::gpu::cuda
