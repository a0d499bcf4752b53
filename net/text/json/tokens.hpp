// The two JSON tokens with a grammar inside, read by hand: numbers and the escapes of a string.
//
// The reader (parse.cpp) needs them where simdjson is too lax or too strict for a chat server, the fault finder
// (fault.cpp) to say which byte is wrong. Nothing here knows about values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::net::text {

// What reading one token gave: its length, or how many bytes were right before the first wrong one.
struct TokenScan {
  std::size_t bytes = 0;
  const char* expected = nullptr;  // what should have stood at `bytes`; nullptr when the token is whole

  bool is_whole() const noexcept { return expected == nullptr; }
};

// Reads the longest number (RFC 8259, section 6) that `text` begins with. Bytes behind it are the caller's business.
TokenScan scan_number(std::string_view text) noexcept;

// Reads the escape that `text` begins with ('\' first) and appends its character to `out` as UTF-8. A surrogate pair is
// one escape of 12 bytes; a surrogate without its partner becomes U+FFFD.
TokenScan read_escape(std::string_view text, std::string& out);

// Appends the characters of a string's `content` (without its quotes) to `out`. False when an escape is malformed.
bool unescape_json(std::string_view content, std::string& out);

}  // namespace tandem::net::text
