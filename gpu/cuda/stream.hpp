// Stream: the one stream of a device on which all operations run in order, and the first error of any of them.
//
// CUDA reports some faults long after the call that caused them. The first one is kept; from then on is_sound() is
// false, operations do nothing, and wait() returns what was kept. One thread uses a Stream at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "engram/error.hpp"

namespace tandem::gpu::cuda {

class Stream {
 public:
  // Opens a stream on device number `device`. Errors: unavailable (no driver, no such device, or one that the kernels
  // were not compiled for).
  static Result<std::unique_ptr<Stream>> open(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle() const noexcept { return handle_; }
  bool is_sound() const noexcept { return !failure_; }
  // Keeps `status` if it is the first failure; `what` names the operation.
  void check(cudaError_t status, const char* what);
  void fail(Error error);
  // Counts an operation. Returns whether it may run.
  bool begin() noexcept {
    ++operations_;
    return is_sound();
  }
  std::int64_t operations() const noexcept { return operations_; }
  // Waits until everything on the stream is done. Errors: the first failure.
  Result<void> wait();

 private:
  explicit Stream(cudaStream_t handle) noexcept : handle_(handle) {}

  cudaStream_t handle_;
  std::optional<Error> failure_;
  std::int64_t operations_ = 0;
};

}  // namespace tandem::gpu::cuda
