// Opening a device and keeping its first failure.
#include "gpu/cuda/stream.hpp"

#include <string>
#include <utility>

namespace tandem::gpu::cuda {
namespace {

Error refused(int device, const std::string& why) {
  return Error{ErrorCode::resource, "CUDA device " + std::to_string(device), why, "a usable device"};
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::open(int device) {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices <= device) {
    const bool none = status == cudaSuccess;
    return refused(device, none ? std::to_string(devices) + " devices" : cudaGetErrorString(status));
  }
  cudaStream_t handle = nullptr;
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking);
  if (status != cudaSuccess) return refused(device, cudaGetErrorString(status));
  std::unique_ptr<Stream> stream(new Stream(handle));
  for (Side& side : stream->sides_) stream->open_side(side);
  if (!stream->is_sound()) return *stream->failure_;
  return stream;
}

Stream::~Stream() {
  cudaStreamSynchronize(handle_);
  for (const Side& side : sides_) {
    if (side.handle) cudaStreamSynchronize(side.handle.get());
  }
  cudaStreamDestroy(handle_);
}

void Stream::check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // also kept by the runtime, where the next launch of another stream would find it
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::resource : ErrorCode::internal;
  fail({code, what, cudaGetErrorString(status), ""});
}

void Stream::fail(Error error) {
  if (!failure_) failure_ = std::move(error);
}

void Stream::order(cudaStream_t earlier, const Event& event, cudaStream_t later) {
  if (!is_sound() || walk_ == Walk::listening || walk_ == Walk::silent) return;
  check(cudaEventRecord(event.get(), earlier), "order of streams");
  check(cudaStreamWaitEvent(later, event.get(), 0), "order of streams");
}

void Stream::open_side(Side& side) {
  cudaStream_t handle = nullptr;
  cudaEvent_t forked = nullptr, joined = nullptr;
  check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "side stream");
  side.handle.reset(handle);
  check(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming), "event");
  side.forked.reset(forked);
  check(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), "event");
  side.joined.reset(joined);
}

void Stream::enter_side(int side) {
  if (walk_ != Walk::none) signature_.add(1 + side);
  order(handle_, sides_[side].forked, sides_[side].handle.get());
  sides_[side].is_open = true;
  here_ = side;
}

void Stream::join(int side) {
  if (!sides_[side].is_open) return;
  if (walk_ != Walk::none) signature_.add(-1 - side);
  order(sides_[side].handle.get(), sides_[side].joined, handle_);
  sides_[side].is_open = here_ == side;
}

void Stream::join() {
  for (int side = 0; side < sides; ++side) join(side);
}

void Stream::begin_walk(Walk walk) noexcept {
  walk_ = walk;
  is_broken_ = false;
  signature_ = {};
}

std::optional<Signature> Stream::take_signature() noexcept {
  const auto taken = is_broken_ ? std::nullopt : std::optional(signature_);
  signature_ = {};
  return taken;
}

Result<void> Stream::wait() {
  if (is_walking()) {
    is_broken_ = true;
    return Error{ErrorCode::invalid_argument, "step of a CUDA device", "waits for the device", "operations only"};
  }
  join();
  if (is_sound()) check(cudaStreamSynchronize(handle_), "waiting for the device");
  if (failure_) return *failure_;
  return {};
}

}  // namespace tandem::gpu::cuda
