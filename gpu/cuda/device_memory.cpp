// Blocks of the arena and copies between the host and the device.
#include "gpu/cuda/device_memory.hpp"

#include <string>

namespace tandem::gpu::cuda {
namespace {

constexpr std::size_t alignment = 256;                      // of cudaMalloc, and of the widest loads
constexpr std::size_t block_bytes = std::size_t{64} << 20;  // shared by requests of up to a quarter of it

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

std::shared_ptr<std::byte> DeviceMemory::reserve(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status != cudaSuccess) {
    cudaGetLastError();  // see Stream::check
    stream_.fail({ErrorCode::resource, "device memory", std::to_string(bytes) + " bytes: " + cudaGetErrorString(status),
                  "room for weights, caches and workspace"});
    return nullptr;
  }
  reserved_bytes_ += bytes;
  // The stream may still read what a dropped buffer held; cudaFree waits for it.
  return {static_cast<std::byte*>(data), [](std::byte* block) { cudaFree(block); }};
}

Buffer DeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  ++allocations_;
  const std::size_t size = aligned(bytes);
  std::shared_ptr<std::byte> data;
  if (size > block_bytes / 4) {
    data = reserve(size);
  } else {
    if (!shared_block_ || shared_used_ + size > block_bytes) {
      shared_block_ = reserve(block_bytes);
      shared_used_ = 0;
    }
    if (shared_block_) data = std::shared_ptr<std::byte>(shared_block_, shared_block_.get() + shared_used_);
    shared_used_ += size;
  }
  if (!data) return {};
  stream_.check(cudaMemsetAsync(data.get(), 0, size, stream_.handle()), "clearing memory");
  return {std::move(data), bytes};
}

void DeviceMemory::place(Buffer& buffer) {
  if (buffer.bytes == 0) return;
  Buffer placed = allocate(buffer.bytes);
  if (placed.bytes != 0) upload({buffer.data.get(), buffer.bytes}, placed.data.get());
  buffer = std::move(placed);
}

void DeviceMemory::upload(std::span<const std::byte> from, void* to) {
  if (from.empty() || !stream_.is_sound()) return;
  staging_.send_to(from, to);
}

Result<void> DeviceMemory::download(const void* from, std::span<std::byte> to) {
  if (stream_.is_walking()) return stream_.wait();  // refused
  stream_.join();
  if (!to.empty() && stream_.is_sound()) {
    stream_.check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_.handle()), "download");
  }
  return stream_.wait();
}

}  // namespace tandem::gpu::cuda
