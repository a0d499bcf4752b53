// CudaContext: what the operations of one CudaOps share. Members are destroyed in reverse: scratch and memory give
// their blocks back before the stream ends.
#pragma once

#include <memory>
#include <utility>

#include "gpu/cuda/device_memory.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/cuda/stream.hpp"
#include "gpu/model/workspace.hpp"

namespace tandem::gpu::cuda {

struct CudaContext {
  CudaContext(std::unique_ptr<Stream> opened, std::size_t staging_bytes)
      : owned(std::move(opened)),
        stream(*owned),
        staging(stream, staging_bytes),
        memory(stream, staging),
        scratch(memory) {}

  std::unique_ptr<Stream> owned;
  Stream& stream;
  Staging staging;
  DeviceMemory memory;
  Workspace scratch;  // intermediate tensors inside one operation

  // Runs launch(stream handle), which returns a cudaError_t, unless an operation before it failed.
  template <class Launch>
  void run(const char* what, const Launch& launch) {
    if (stream.begin()) stream.check(launch(stream.handle()), what);
  }
};

}  // namespace tandem::gpu::cuda
