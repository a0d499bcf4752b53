// Launches of translated kernels: what gpu/cuda/exl3/launch.hpp declares, on a CPU, where one kernel ends before the
// next.
#pragma once

#include "tests/cuda/emulation/device.hpp"
#include "tests/cuda/emulation/dry_run.hpp"

namespace tandem::gpu::cuda {

struct LaunchShape {
  dim3 grid;
  int threads = 0;
  int cluster = 1;
  std::size_t shared_bytes = 0;
};

template <class... Parameters, class... Arguments>
cudaError_t launch_dependent(cudaStream_t, const LaunchShape& shape, void (*kernel)(Parameters...),
                             const Arguments&... arguments) {
  if (emulation::DryRun::is_on()) {
    emulation::DryRun::add_node();
    return cudaSuccess;
  }
  emulation::run({shape.grid, dim3(static_cast<unsigned>(shape.threads)), shape.shared_bytes, shape.cluster},
                 [&] { kernel(static_cast<Parameters>(arguments)...); });
  return cudaSuccess;
}

}  // namespace tandem::gpu::cuda
