// CRC-32C (Castagnoli, as in iSCSI and ext4): finds damaged blocks of packed rows. Fast in plain C++; not meant against
// an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::engram {

// Returns the checksum of `bytes`; with the checksum of what came before as `before`, that of both together.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace tandem::engram
