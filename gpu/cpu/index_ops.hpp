// The indexer: scores of all visible index keys, publication of candidate blocks, choice of the best entries.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

// Contract: Ops::index_select. selected is in ascending order of the entry number.
void cpu_index_select(CpuContext& context, const IndexCall& call);

}  // namespace tandem::gpu
