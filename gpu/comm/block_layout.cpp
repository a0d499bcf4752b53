// Where blocks lie, and the copy that in-place callers save.
#include "gpu/comm/block_layout.hpp"

#include <fmt/format.h>

#include <cstring>

namespace tandem::gpu::comm {

std::span<std::byte> block_of(std::span<std::byte> all, std::size_t block_bytes, int rank) noexcept {
  return all.subspan(block_bytes * static_cast<std::size_t>(rank), block_bytes);
}

Result<void> check_blocks(std::span<const std::byte> local, std::span<const std::byte> all, int size) {
  const std::size_t expected = local.size() * static_cast<std::size_t>(size);
  if (all.size() == expected) return {};
  return Error{ErrorCode::invalid_argument, "all_gather", fmt::format("room for {} bytes", all.size()),
               fmt::format("{} blocks of {} bytes", size, local.size())};
}

void place_own_block(std::span<const std::byte> local, std::span<std::byte> all, int rank) noexcept {
  const auto own = block_of(all, local.size(), rank);
  if (own.data() != local.data() && !local.empty()) std::memmove(own.data(), local.data(), local.size());
}

}  // namespace tandem::gpu::comm
