// Staging: how small host arrays reach kernels in stream order.
//
// A span is copied to pinned memory at once (the caller's copy may then change) and from there to its device twin at
// the same offset. When the area is full the stream is waited for and the area starts over; it is sized so that a step
// fits.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gpu/cuda/stream.hpp"

namespace tandem::gpu::cuda {

class Staging {
 public:
  static constexpr std::size_t default_bytes = std::size_t{32} << 20;

  // `stream` must outlive this. Failures are kept by the stream.
  Staging(Stream& stream, std::size_t bytes);

  // Returns where kernels launched from now on find the values; null if there are none or on failure.
  template <class T>
  const T* send(std::span<const T> values) {
    return static_cast<const T*>(send_bytes(std::as_bytes(values)));
  }
  // Copies bytes of any length to `to`, in stream order.
  void send_to(std::span<const std::byte> bytes, void* to);

 private:
  const void* send_bytes(std::span<const std::byte> bytes);
  // Returns the offset of `bytes` bytes of the area.
  std::size_t take(std::size_t bytes);

  Stream& stream_;
  std::size_t bytes_;
  std::size_t used_ = 0;
  std::shared_ptr<std::byte> pinned_;
  std::shared_ptr<std::byte> device_;
};

}  // namespace tandem::gpu::cuda
