// Eight bytes a step through eight tables: table k holds the remainders of a byte that k more bytes follow.
#include "engram/pack/crc32c.hpp"

#include <array>

namespace tandem::engram {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78U;  // Castagnoli's, lowest bit first

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ ((remainder & 1U) != 0 ? polynomial : 0U);
    tables[0][byte] = remainder;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = shorter >> 8 ^ tables[0][shorter & 255U];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

std::uint32_t at(std::span<const std::byte> bytes, std::size_t i) noexcept {
  return std::to_integer<std::uint32_t>(bytes[i]);
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint32_t low = crc ^ (at(bytes, 0) | at(bytes, 1) << 8 | at(bytes, 2) << 16 | at(bytes, 3) << 24);
    crc = tables[7][low & 255U] ^ tables[6][low >> 8 & 255U] ^ tables[5][low >> 16 & 255U] ^ tables[4][low >> 24] ^
          tables[3][at(bytes, 4)] ^ tables[2][at(bytes, 5)] ^ tables[1][at(bytes, 6)] ^ tables[0][at(bytes, 7)];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) crc = crc >> 8 ^ tables[0][(crc ^ at(bytes, i)) & 255U];
  return ~crc;
}

}  // namespace tandem::engram
