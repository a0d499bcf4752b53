// The fabric's settings handed to NCCL: set in this process's environment before the first thread that could read it.
#pragma once

#include "ops/setting_table.hpp"

namespace tandem::ops {

// Sets what NCCL needs to know for `rank` (0 = the head), and logs it, if ranks with CUDA devices exchange at all. Call
// from the main thread before anything else is started. Errors: bad_config.
Result<void> prepare_fabric(const Settings& settings, int rank);

}  // namespace tandem::ops
