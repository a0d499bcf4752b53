// The printable alphabet in which a byte-level vocabulary file spells its entries: one code point for each of the 256
// bytes.
//
// Bytes 33..126, 161..172 and 174..255 stand for themselves; the other 68 take U+0100, U+0101, ... in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::net::text {

// Returns the code point that stands for a byte.
std::uint32_t byte_letter(unsigned char byte) noexcept;

// Returns the bytes that a vocabulary entry spells; nullopt if it holds a character outside the alphabet.
std::optional<std::string> spelled_bytes(std::string_view entry);

}  // namespace tandem::net::text
