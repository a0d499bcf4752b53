// UTF-8, one code point at a time: the only place that knows which byte sequences are well formed.
//
// Follows the Unicode standard's table of well-formed sequences (no surrogates, no overlong forms, nothing above
// U+10FFFF) and its "maximal subpart" practice: an ill-formed sequence is cut after its longest prefix that some
// character begins with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::net::text {

// U+FFFD, written wherever bytes cannot become a character.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

enum class Utf8Status {
  complete,    // `bytes` bytes are one character
  incomplete,  // the input ends inside a character that is well formed so far; `bytes` is what there is of it
  invalid      // the first `bytes` bytes (1 to 3) can never become a character
};

struct Utf8Step {
  Utf8Status status = Utf8Status::invalid;
  std::uint32_t code_point = 0;  // meaningful only when complete
  std::size_t bytes = 0;         // at least 1 for input that is not empty
};

// Reads the first character of `bytes`, which must not be empty.
Utf8Step read_utf8(std::string_view bytes) noexcept;

// Appends `code_point` (a scalar value: no surrogate, at most U+10FFFF) as UTF-8.
void append_utf8(std::string& out, std::uint32_t code_point);

bool is_valid_utf8(std::string_view bytes) noexcept;

}  // namespace tandem::net::text
