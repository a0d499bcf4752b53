// Which backend computes: the one place that knows all of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engram/error.hpp"
#include "gpu/comm/nccl_api.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

struct BackendOptions {
  std::string name = "cpu";          // "cpu", or "cuda" in builds that have it
  int threads = 1;                   // compute threads of the CPU backend
  SumOrder order = SumOrder::lanes;  // of the CPU backend; a device has the lanes' order only
  int device = 0;                    // number of the CUDA device
};

// Whether this build has the backend of that name.
bool has_backend(std::string_view name) noexcept;

// Returns how many CUDA devices this process sees; 0 in builds without CUDA.
int visible_devices() noexcept;

// Returns NCCL, or null in builds without it.
NcclApi* find_nccl() noexcept;

// Errors: invalid_argument (unknown name), bad_config (not in this build), resource (no usable device, device memory).
Result<std::unique_ptr<Ops>> make_ops(const BackendOptions& options);

}  // namespace tandem::gpu
