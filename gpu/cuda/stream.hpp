// Stream: the one stream of a device on which all operations run in order, and the first error of any of them.
//
// CUDA reports some faults long after the call that caused them. The first one is kept; from then on is_sound() is
// false, operations do nothing, and wait() returns what was kept. One thread uses a Stream at a time.
//
// An operation normally launches at once. While a step is walked (step_graphs.hpp) it adds itself to a signature, and
// launches only if the walk is captured; a walk may not wait for the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "engram/error.hpp"
#include "gpu/cuda/signature.hpp"

namespace tandem::gpu::cuda {

// What becomes of an operation.
enum class Walk { none, listening, capturing };

// Sees every operation that launches at once: for measurements.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void before(const char* what, cudaStream_t stream) = 0;
  virtual void after(const char* what, cudaStream_t stream) = 0;
};

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

  // Runs launch(stream handle, arguments..), which returns a cudaError_t, unless an operation before it failed. `what`
  // and the arguments must tell all that the launch depends on.
  template <class Launch, class... Arguments>
  void run(const char* what, const Launch& launch, const Arguments&... arguments) {
    if (!is_sound()) return;
    ++operations_;
    if (walk_ != Walk::none) {
      signature_.add(what);
      (signature_.add(arguments), ...);
    }
    if (walk_ == Walk::listening) return;
    if (observer_ != nullptr) observer_->before(what, handle_);
    check(launch(handle_, arguments...), what);
    if (observer_ != nullptr) observer_->after(what, handle_);
  }
  // `observer` must outlive its use; null ends it.
  void observe(LaunchObserver* observer) noexcept { observer_ = observer; }
  std::int64_t operations() const noexcept { return operations_; }
  // Waits until everything on the stream is done. Errors: the first failure; invalid_argument during a walk, which then
  // counts as broken.
  Result<void> wait();

  void begin_walk(Walk walk) noexcept;
  // Returns the signature of the walk, or nothing if an operation wanted to wait.
  std::optional<Signature> end_walk() noexcept;
  bool is_walking() const noexcept { return walk_ != Walk::none; }

 private:
  explicit Stream(cudaStream_t handle) noexcept : handle_(handle) {}

  cudaStream_t handle_;
  std::optional<Error> failure_;
  std::int64_t operations_ = 0;
  LaunchObserver* observer_ = nullptr;
  Walk walk_ = Walk::none;
  bool is_broken_ = false;
  Signature signature_;
};

}  // namespace tandem::gpu::cuda
