// CudaOps: the CUDA backend of Ops. See README.md for how tensors live on the device.
#pragma once

#include <cstdint>
#include <memory>

#include "engram/error.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

struct CudaOptions {
  int device = 0;
  std::size_t staging_bytes = std::size_t{32} << 20;  // pinned: what the host tells the kernels of one step
};

// Returns how many devices this process sees; 0 without a driver.
int count_cuda_devices() noexcept;

// Returns a backend on one device. Tensors are f32 (i32 for ids, i64 for masks) in the memory of the returned Ops,
// which must outlive every Buffer of it. One thread calls it at a time. Errors: resource (no usable device),
// resource.
Result<std::unique_ptr<Ops>> make_cuda_ops(const CudaOptions& options);

// What a CUDA backend has used so far; requires that `ops` came from make_cuda_ops.
struct CudaUse {
  std::int64_t allocations = 0;  // requests to the arena
  std::size_t reserved_bytes = 0;
  std::int64_t operations = 0;
  std::int64_t graphs = 0;        // captured
  std::int64_t graph_starts = 0;  // steps that were one launch
  std::int64_t graph_nodes = 0;   // kernels and copies of the last of them
  // Microseconds of the host on such steps: for an area to be free, over the operations, for copies and starts.
  double wait_us = 0, walk_us = 0, copy_us = 0, start_us = 0;
  std::int64_t prepared_starts = 0;  // of graph_starts: steps that were walked before their turn
};
CudaUse use_of(const Ops& ops);

namespace cuda {
class LaunchObserver;
}
// Shows every launch to `observer` from now on; null ends it. Requires that `ops` came from make_cuda_ops.
void observe_launches(Ops& ops, cuda::LaunchObserver* observer);
// Operations of this name, which an observer was shown, launch twice from now on; null ends it. For measurements: what
// a step then takes longer is what the operation adds to it. Requires that `ops` came from make_cuda_ops.
void repeat_launches(Ops& ops, const char* what);

}  // namespace tandem::gpu
