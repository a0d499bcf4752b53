// Linears: y = x W^T and its partial sums over slices of K.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

// Contracts: Ops::linear and Ops::partial_linear.
void cpu_linear(CpuContext& context, const Tensor& x, const Linear& weight, LinearMode mode, const Tensor& y);
void cpu_partial_linear(CpuContext& context, const Tensor& x, const PartialLinear& weight, LinearMode mode,
                        const Tensor& y);

}  // namespace tandem::gpu
