// Attention over a row's window entries and selected compressed entries.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

// Contract: Ops::attention.
void cpu_attention(CpuContext& context, const AttentionCall& call);

}  // namespace tandem::gpu
