// Times of work on a stream, and device memory for it. Failures are kept by the stream; times are then 0.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "gpu/cuda/stream.hpp"

namespace tandem::gpu::cuda::bench {

// Uninitialised device memory.
class DeviceBlock {
 public:
  DeviceBlock(Stream& stream, std::size_t bytes);
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_.get());
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_;
};

// Milliseconds of what `body` launches: the median of `repeats` after one warm-up.
double median_ms(Stream& stream, int repeats, const std::function<void()>& body);
// The same for `body` captured into a graph and replayed: no time between launches.
double replay_ms(Stream& stream, int repeats, const std::function<void()>& body);

}  // namespace tandem::gpu::cuda::bench
