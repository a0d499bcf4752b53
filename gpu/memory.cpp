// Host memory as a Memory, and the copies that other memories need.
#include "gpu/memory.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::gpu {
namespace {

class HostMemory final : public Memory {
 public:
  bool is_host() const noexcept override { return true; }
  Buffer allocate(std::size_t bytes) override { return Buffer::host(bytes); }
  void place(Buffer&) override {}
  void upload(std::span<const std::byte> from, void* to) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  Result<void> download(const void* from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return {};
  }
};

}  // namespace

Memory& host_memory() noexcept {
  static HostMemory memory;
  return memory;
}

Result<Tensor> on_host(Memory& memory, const Tensor& value, Buffer& copy) {
  if (memory.is_host() || value.empty()) return value;
  const std::size_t row_bytes = static_cast<std::size_t>(value.cols) * element_bytes(value.dtype);
  const std::size_t bytes = static_cast<std::size_t>(value.rows) * row_bytes;
  if (copy.bytes < bytes) copy = Buffer::host(bytes);
  Tensor result = value;
  result.data = copy.data.get();
  result.stride = value.cols;
  if (value.stride == value.cols) {
    if (auto ok = memory.download(value.data, {copy.data.get(), bytes}); !ok) return ok.error();
    return result;
  }
  for (std::int64_t row = 0; row < value.rows; ++row) {
    const Tensor one = value.slice_rows(row, 1);
    std::byte* to = copy.data.get() + static_cast<std::size_t>(row) * row_bytes;
    if (auto ok = memory.download(one.data, {to, row_bytes}); !ok) return ok.error();
  }
  return result;
}

}  // namespace tandem::gpu
