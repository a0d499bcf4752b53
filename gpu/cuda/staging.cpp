// The pinned area and its device twin.
#include "gpu/cuda/staging.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace tandem::gpu::cuda {
namespace {

constexpr std::size_t alignment = 64;

}  // namespace

Staging::Staging(Stream& stream, std::size_t bytes) : stream_(stream), bytes_(bytes) {
  void* pinned = nullptr;
  void* device = nullptr;
  stream_.check(cudaMallocHost(&pinned, bytes), "pinned staging memory");
  stream_.check(cudaMalloc(&device, bytes), "device staging memory");
  if (pinned != nullptr) pinned_ = {static_cast<std::byte*>(pinned), [](std::byte* area) { cudaFreeHost(area); }};
  if (device != nullptr) device_ = {static_cast<std::byte*>(device), [](std::byte* area) { cudaFree(area); }};
}

std::size_t Staging::take(std::size_t bytes) {
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  if (used_ + size > bytes_) {
    stream_.check(cudaStreamSynchronize(stream_.handle()), "waiting for the staging area");
    used_ = 0;
  }
  const std::size_t offset = used_;
  used_ += size;
  return offset;
}

const void* Staging::send_bytes(std::span<const std::byte> bytes) {
  if (bytes.empty() || !stream_.is_sound()) return nullptr;
  if (bytes.size() > bytes_) {
    stream_.fail({ErrorCode::resource, "staging area", std::to_string(bytes.size()) + " bytes in one list",
                  "at most " + std::to_string(bytes_)});
    return nullptr;
  }
  const std::size_t offset = take(bytes.size());
  std::byte* to = device_.get() + offset;
  std::memcpy(pinned_.get() + offset, bytes.data(), bytes.size());
  stream_.check(cudaMemcpyAsync(to, pinned_.get() + offset, bytes.size(), cudaMemcpyHostToDevice, stream_.handle()),
                "staging");
  return to;
}

void Staging::send_to(std::span<const std::byte> bytes, void* to) {
  auto* place = static_cast<std::byte*>(to);
  while (!bytes.empty() && stream_.is_sound()) {
    const auto part = bytes.first(std::min(bytes.size(), bytes_ / 4));
    const std::size_t offset = take(part.size());
    std::memcpy(pinned_.get() + offset, part.data(), part.size());
    stream_.check(cudaMemcpyAsync(place, pinned_.get() + offset, part.size(), cudaMemcpyHostToDevice, stream_.handle()),
                  "upload");
    place += part.size();
    bytes = bytes.subspan(part.size());
  }
}

}  // namespace tandem::gpu::cuda
