// Opening a device and keeping its first failure.
#include "gpu/cuda/stream.hpp"

#include <string>
#include <utility>

namespace tandem::gpu::cuda {
namespace {

Error refused(int device, const std::string& why) {
  return Error{ErrorCode::unavailable, "CUDA device " + std::to_string(device), why, "a usable device"};
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
  return std::unique_ptr<Stream>(new Stream(handle));
}

Stream::~Stream() {
  cudaStreamSynchronize(handle_);
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

void Stream::begin_walk(Walk walk) noexcept {
  walk_ = walk;
  is_broken_ = false;
  signature_ = {};
}

std::optional<Signature> Stream::end_walk() noexcept {
  walk_ = Walk::none;
  return is_broken_ ? std::nullopt : std::optional(signature_);
}

Result<void> Stream::wait() {
  if (is_walking()) {
    is_broken_ = true;
    return Error{ErrorCode::invalid_argument, "step of a CUDA device", "waits for the device", "operations only"};
  }
  if (is_sound()) check(cudaStreamSynchronize(handle_), "waiting for the device");
  if (failure_) return *failure_;
  return {};
}

}  // namespace tandem::gpu::cuda
