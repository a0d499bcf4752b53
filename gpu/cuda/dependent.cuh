// Kernels that start while the one before them ends: half of what a step of a thousand small kernels waits for.
//
// Every kernel of a step is launched by launch_dependent: its blocks may be placed as soon as every block of the kernel
// before has let it start, and it waits before it touches what earlier kernels write. Most do both at once, by
// begin_dependent. One that waits before it lets the next one start promises it that all kernels but itself have ended.
// No block may return without having waited: the next kernel would overtake the one before.
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
