// The real NCCL. Only in builds that have CUDA and found NCCL.
#pragma once

#include "gpu/comm/nccl_api.hpp"

namespace tandem::gpu {

// Returns the library that this process was linked with.
NcclApi& nccl_library() noexcept;

}  // namespace tandem::gpu
