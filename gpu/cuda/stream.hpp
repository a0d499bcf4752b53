// Stream: the one stream of a device on which all operations run in order, and the first error of any of them.
//
// CUDA reports some faults long after the call that caused them. The first one is kept; from then on is_sound() is
// false, operations do nothing, and wait() returns what was kept. One thread uses a Stream at a time.
//
// Work that nothing needs at once may go beside the stream (enter_side): it starts behind everything launched so far
// and runs while later operations do, until join. A side is a stream of its own and becomes a branch of a captured
// step.
//
// An operation normally launches at once. While a step is walked (step_graphs.hpp) it adds itself to a signature, and
// launches only if the walk is captured; a walk may not wait for the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "engram/error.hpp"
#include "gpu/cuda/signature.hpp"

namespace tandem::gpu::cuda {

// What becomes of an operation: it launches, adds itself to the signature, does both for a capture, or nothing.
enum class Walk { none, listening, capturing, silent };

// Sees every operation that launches at once: for measurements.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void before(const char* what, cudaStream_t stream) = 0;
  virtual void after(const char* what, cudaStream_t stream) = 0;
};

class Stream {
 public:
  static constexpr int sides = 2;

  // Opens a stream on device number `device`. Errors: resource (no driver, no such device, or one that the kernels
  // were not compiled for).
  static Result<std::unique_ptr<Stream>> open(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle() const noexcept { return here_ < 0 ? handle_ : sides_[here_].handle.get(); }
  // Which side operations go to, or -1.
  int here() const noexcept { return here_; }
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
    const bool twice = repeated_ != nullptr && std::strcmp(repeated_, what) == 0;
    if (walk_ == Walk::silent) return;
    if (walk_ != Walk::none) {
      signature_.add(what);
      (signature_.add(arguments), ...);
      if (twice) signature_.add(2);
    }
    if (walk_ == Walk::listening) return;
    const cudaStream_t stream = handle();
    if (observer_ != nullptr) observer_->before(what, stream);
    check(launch(stream, arguments...), what);
    if (twice) check(launch(stream, arguments...), what);
    if (observer_ != nullptr) observer_->after(what, stream);
  }
  // Operations from here to leave_side() go beside the stream. What they read must stay as it is until join(side), and
  // what they use as scratch memory must be that side's alone.
  void enter_side(int side);
  void leave_side() noexcept { here_ = -1; }
  // Operations from here on come behind those of a side; of all sides.
  void join(int side);
  void join();
  // `observer` must outlive its use; null ends it.
  void observe(LaunchObserver* observer) noexcept { observer_ = observer; }
  // Operations of this name launch twice from now on, which changes no result of most; null ends it. For measurements.
  void repeat(const char* what) noexcept { repeated_ = what; }
  std::int64_t operations() const noexcept { return operations_; }
  // Waits until everything on the stream is done. Errors: the first failure; invalid_argument during a walk, which then
  // counts as broken.
  Result<void> wait();

  void begin_walk(Walk walk) noexcept;
  // Returns the signature of the walk so far and begins another one, or nothing if an operation wanted to wait.
  std::optional<Signature> take_signature() noexcept;
  void end_walk() noexcept { walk_ = Walk::none; }
  Walk walk() const noexcept { return walk_; }
  bool is_walking() const noexcept { return walk_ != Walk::none; }

 private:
  using Event = std::unique_ptr<CUevent_st, decltype(&cudaEventDestroy)>;
  struct Side {
    std::unique_ptr<CUstream_st, decltype(&cudaStreamDestroy)> handle{nullptr, &cudaStreamDestroy};
    Event forked{nullptr, &cudaEventDestroy}, joined{nullptr, &cudaEventDestroy};
    bool is_open = false;  // has work that was not joined
  };
  explicit Stream(cudaStream_t handle) noexcept : handle_(handle) {}
  void open_side(Side& side);
  // Lets `later` come behind everything that is on `earlier` now.
  void order(cudaStream_t earlier, const Event& event, cudaStream_t later);

  cudaStream_t handle_;
  Side sides_[sides];
  int here_ = -1;
  std::optional<Error> failure_;
  std::int64_t operations_ = 0;
  LaunchObserver* observer_ = nullptr;
  const char* repeated_ = nullptr;
  Walk walk_ = Walk::none;
  bool is_broken_ = false;
  Signature signature_;
};

}  // namespace tandem::gpu::cuda
