// Tensors of all ranks side by side, wherever the backend keeps them.
#pragma once

#include "gpu/model/step_context.hpp"

namespace tandem::gpu {

// Gathers `own` of every rank into `all`, rank after rank; both without gaps between their rows. Errors: those of the
// communicator and of the backend.
Result<void> gather_over_ranks(const StepContext& step, const Tensor& own, const Tensor& all);

}  // namespace tandem::gpu
