// DeviceMemory: the arena that weights, caches and workspace of one device come from.
//
// Plain cudaMalloc blocks. Small requests share a block, large ones have one of their own; a block is given back when
// the last Buffer in it is gone. Everything is requested while loading: allocations() tells whether a step asked for
// more.
#pragma once

#include <cstdint>
#include <memory>

#include "gpu/cuda/staging.hpp"
#include "gpu/cuda/stream.hpp"
#include "gpu/memory.hpp"

namespace tandem::gpu::cuda {

class DeviceMemory final : public Memory {
 public:
  // Both must outlive this.
  DeviceMemory(Stream& stream, Staging& staging) noexcept : stream_(stream), staging_(staging) {}

  bool is_host() const noexcept override { return false; }
  Buffer allocate(std::size_t bytes) override;
  void place(Buffer& buffer) override;
  void upload(std::span<const std::byte> from, void* to) override;
  Result<void> download(const void* from, std::span<std::byte> to) override;

  std::int64_t allocations() const noexcept { return allocations_; }  // requests so far
  std::size_t reserved_bytes() const noexcept { return reserved_bytes_; }

 private:
  // Returns `bytes` of a block of their own, not cleared; empty on failure.
  std::shared_ptr<std::byte> reserve(std::size_t bytes);

  Stream& stream_;
  Staging& staging_;
  std::shared_ptr<std::byte> shared_block_;
  std::size_t shared_used_ = 0;
  std::int64_t allocations_ = 0;
  std::size_t reserved_bytes_ = 0;
};

}  // namespace tandem::gpu::cuda
