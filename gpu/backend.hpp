// Which backend computes: the one place that knows all of them.
#pragma once

#include <memory>
#include <string>

#include "engram/error.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

struct BackendOptions {
  std::string name = "cpu";          // "cpu", or "cuda" in builds that have it
  int threads = 1;                   // compute threads of the CPU backend
  SumOrder order = SumOrder::lanes;  // of the CPU backend; a device has the lanes' order only
};

// Errors: invalid_argument (unknown name), unavailable (not in this build, or no device), resource (device memory).
Result<std::unique_ptr<Ops>> make_ops(const BackendOptions& options);

}  // namespace tandem::gpu
