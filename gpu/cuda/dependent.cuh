// Kernels that start while the one before them ends: half of what a step of a thousand small kernels waits for.
//
// Every kernel of the backend is launched by launch_dependent and begins with begin_dependent: its blocks may be placed
// as soon as all blocks of the kernel before have begun, and wait there until its writes are visible. A kernel that
// returned without waiting would let the next one overtake the one before.
#pragma once

#include "gpu/cuda/exl3/cluster.cuh"
#include "gpu/cuda/exl3/launch.hpp"

namespace tandem::gpu::cuda {

// The first statement of a kernel that reads nothing before it.
__device__ __forceinline__ void begin_dependent() {
  let_next_kernel_start();
  wait_for_earlier_kernels();
}

}  // namespace tandem::gpu::cuda
