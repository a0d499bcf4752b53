// The manifold hyper-connections: coefficients of a site, collapse of the streams into one, expansion back.
//
// Contracts and formulas: gpu/ops.hpp, the methods of the same name.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

void cpu_mhc_mix(CpuContext& context, const Tensor& streams, const HyperConnection& hc, const ModelConfig& config,
                 const HcMix& out);
void cpu_mhc_collapse(CpuContext& context, const Tensor& streams, const Tensor& pre, bool round, const Tensor& u);
void cpu_mhc_expand(CpuContext& context, const Tensor& streams, const Tensor& y, const HcMix& mix, bool round);

// One row's coefficients from its (2 + C) C raw numbers; also the tests' door to the Sinkhorn rounds.
struct MixRow {
  const float* raw = nullptr;    // [(2 + C) C]: pre, post, comb row by row
  const float* scale = nullptr;  // [3]
  const float* base = nullptr;   // [(2 + C) C]
  int mult = 4;                  // C
  int iterations = 20;
  float eps = 1e-6F;
};
struct MixOut {
  float* pre = nullptr;   // [C]
  float* post = nullptr;  // [C]
  float* comb = nullptr;  // [C, C]
};
void split_mix(const MixRow& row, const MixOut& out);

}  // namespace tandem::gpu
