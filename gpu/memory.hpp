// Memory: where a backend keeps tensors, and how the host gets at them.
//
// The model never dereferences a tensor itself: weights are placed, inputs uploaded, results downloaded. For a backend
// that works in host memory all of this is free.
#pragma once

#include <cstddef>
#include <span>

#include "engram/error.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

class Memory {
 public:
  virtual ~Memory() = default;

  // Whether tensors may be read and written by the host at any time.
  virtual bool is_host() const noexcept = 0;
  // Returns `bytes` zeroed bytes, aligned to 64; an empty Buffer if there are none left, in which case every later
  // download fails with `resource`.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Moves host bytes to where the operations read them; the Buffer then refers to the new place.
  virtual void place(Buffer& buffer) = 0;
  // Copies host bytes to a tensor's memory, in the order of operations; `from` may change after the call.
  virtual void upload(std::span<const std::byte> from, void* to) = 0;
  // Waits for all operations so far and copies to the host. Errors: the first one of any earlier operation.
  virtual Result<void> download(const void* from, std::span<std::byte> to) = 0;
};

// The memory of backends that compute on the host.
Memory& host_memory() noexcept;

// Returns `value` as the host can read it: itself in host memory, else a copy of its rows kept in `copy`. Errors: those
// of download.
Result<Tensor> on_host(Memory& memory, const Tensor& value, Buffer& copy);

// Bytes of a tensor whose rows follow each other without gaps.
inline std::span<std::byte> bytes_of(const Tensor& value) noexcept {
  return {static_cast<std::byte*>(value.data),
          static_cast<std::size_t>(value.rows * value.cols) * element_bytes(value.dtype)};
}

}  // namespace tandem::gpu
