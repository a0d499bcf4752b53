// What is wrong with the options of a trace, found before any weight is read.
#pragma once

#include "gpu/trace.hpp"

namespace tandem::gpu {

// Returns the first fault: of an option by itself, of the model's configuration, of an option for this model (token
// ids, positions, ranks, drafts), of the place to write to.
TraceResult<void> check_trace(const TraceOptions& options);

}  // namespace tandem::gpu
