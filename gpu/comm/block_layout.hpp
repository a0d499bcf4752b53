// The memory contract of all_gather that every communicator shares: blocks in rank order, the caller's own block
// possibly in place.
#pragma once

#include <cstddef>
#include <span>

#include "engram/error.hpp"

namespace tandem::gpu::comm {

// Returns rank `rank`'s block of `all`.
std::span<std::byte> block_of(std::span<std::byte> all, std::size_t block_bytes, int rank) noexcept;

// Checks sizes. Errors: invalid_argument unless all.size() == size * local.size().
Result<void> check_blocks(std::span<const std::byte> local, std::span<const std::byte> all, int size);

// Puts the caller's own data into its block, unless it is there already.
void place_own_block(std::span<const std::byte> local, std::span<std::byte> all, int rank) noexcept;

}  // namespace tandem::gpu::comm
