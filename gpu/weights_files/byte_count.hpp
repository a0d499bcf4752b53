// Numbers of bytes that come from a list: sums that do not wrap, and how a size is shown.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace tandem::gpu {

// Returns the sum, or the largest number where the sum is beyond counting: sizes of a manifest may be anything.
constexpr std::uint64_t add_bytes(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return b > most - a ? most : a + b;
}

// Returns "812 bytes", "3.4 KiB", "12.0 MiB" or "99.46 GiB": never a size that reads as zero and is not.
std::string bytes_text(std::uint64_t bytes);

}  // namespace tandem::gpu
