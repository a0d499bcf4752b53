// SHA-256 (FIPS 180-4), incremental: fingerprints of token maps, packed tables and receipts. Not meant for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tandem::engram {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  // Appends bytes to the message.
  void update(std::span<const std::byte> bytes) noexcept;
  // Pads and returns the digest; the object must not be used afterwards.
  Sha256Digest finish() noexcept;

 private:
  void compress(const std::byte* block) noexcept;

  std::array<std::uint32_t, 8> state_{0x6A09E667U, 0xBB67AE85U, 0x3C6EF372U, 0xA54FF53AU,
                                      0x510E527FU, 0x9B05688CU, 0x1F83D9ABU, 0x5BE0CD19U};
  std::array<std::byte, 64> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t message_bytes_ = 0;
};

// Returns the digest of one piece of memory as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
// Returns a digest as 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256Digest& digest);

}  // namespace tandem::engram
