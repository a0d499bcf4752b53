// The mixture of experts: router and expert products.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

struct RouteCall {
  Tensor x;
  const Linear* gate = nullptr;
  const float* bias = nullptr;  // may be null
  double temperature = 1;
  double scaling = 1;
  Routing out;
};
// Contracts: Ops::route and Ops::moe.
void cpu_route(CpuContext& context, const RouteCall& call);
void cpu_moe(CpuContext& context, const MoeCall& call);

}  // namespace tandem::gpu
