// The Unicode classes that the tokenizer's splits ask for: \p{L} \p{M} \p{N} \p{P} \p{S} and \s.
#pragma once

#include <cstdint>

namespace tandem::net::text {

enum class UnicodeClass : std::uint8_t { none, letter, mark, number, punctuation, symbol };

// Returns the first letter of the code point's general category; `none` for anything else, also beyond U+10FFFF.
UnicodeClass unicode_class(std::uint32_t code_point) noexcept;

// Returns whether the code point has the property White_Space (U+0085, U+00A0, U+3000 have it; U+200B and U+FEFF do
// not).
bool is_white_space(std::uint32_t code_point) noexcept;

}  // namespace tandem::net::text
