// MemorySource: a file that lies in memory. Who reads beyond its end has not looked at its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "gpu/checkpoint/byte_source.hpp"
#include "tests/fuzz/require.hpp"

namespace tandem::fuzz {

class MemorySource final : public gpu::ByteSource {
 public:
  // The bytes must outlive the source.
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
    require(offset <= bytes_.size() && into.size() <= bytes_.size() - offset);
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tandem::fuzz
