// Experts of which some are EXL3: the same two passes as cpu_moe, in units of one Hadamard block of outputs.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

// True if any expert of the call, the shared one included, has EXL3 weights.
bool has_exl3_experts(const MoeCall& call) noexcept;

// Contract: Ops::moe. Experts may differ in format, bits and codebook; those of other formats give the same bits as in
// cpu_moe.
void cpu_exl3_moe(CpuContext& context, const MoeCall& call);

}  // namespace tandem::gpu
