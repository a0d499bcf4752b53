// Both directions of the alphabet; the reverse is a table because a vocabulary has a million letters.
#include "net/text/byte_alphabet.hpp"

#include "net/text/utf8.hpp"

#include <array>

namespace tandem::net::text {
namespace {

constexpr std::uint32_t first_substitute = 0x100;
constexpr std::uint32_t substitutes = 68;
using ByteOfLetter = std::array<std::int16_t, first_substitute + substitutes>;  // -1: no byte

constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

constexpr std::array<std::uint32_t, 256> make_letters() {
  std::array<std::uint32_t, 256> letters{};
  std::uint32_t substitute = first_substitute;
  for (std::uint32_t byte = 0; byte < 256; ++byte) letters[byte] = stands_for_itself(byte) ? byte : substitute++;
  return letters;
}

constexpr std::array<std::uint32_t, 256> letters = make_letters();

constexpr ByteOfLetter make_bytes() {
  ByteOfLetter bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  for (std::size_t byte = 0; byte < letters.size(); ++byte) bytes[letters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr ByteOfLetter bytes_of_letters = make_bytes();

}  // namespace

std::uint32_t byte_letter(unsigned char byte) noexcept {
  return letters[byte];
}

std::optional<std::string> spelled_bytes(std::string_view entry) {
  std::string bytes;
  while (!entry.empty()) {
    const Utf8Step step = read_utf8(entry);
    if (step.status != Utf8Status::complete || step.code_point >= bytes_of_letters.size()) return std::nullopt;
    const std::int16_t byte = bytes_of_letters[step.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    entry.remove_prefix(step.bytes);
  }
  return bytes;
}

}  // namespace tandem::net::text
