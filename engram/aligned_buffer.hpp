// AlignedBuffer: zeroed memory that direct I/O may read into. Owns one allocation, moves, never copies.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "engram/input_file.hpp"

namespace tandem::engram {

class AlignedBuffer {
 public:
  // `bytes` is rounded up to direct_alignment. Throws std::bad_alloc: buffers are made once, at start-up.
  explicit AlignedBuffer(std::size_t bytes)
      : bytes_((bytes + direct_alignment - 1) / direct_alignment * direct_alignment),
        memory_(static_cast<std::byte*>(std::aligned_alloc(direct_alignment, bytes_))) {
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0, bytes_);
  }

  std::span<std::byte> span() const noexcept { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace tandem::engram
