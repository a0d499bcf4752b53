// Straight transcriptions of RFC 8259: each function walks its token once and never reads past the view.
#include "net/text/json/tokens.hpp"

#include "net/text/utf8.hpp"

#include <cstdint>
#include <optional>

namespace tandem::net::text {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool take(std::string_view text, std::size_t& at, char c) noexcept {
  if (at == text.size() || text[at] != c) return false;
  ++at;
  return true;
}

bool take_digits(std::string_view text, std::size_t& at) noexcept {
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return at > begin;
}

// Returns the value of the four hexadecimal digits that `text` begins with.
std::optional<std::uint32_t> read_hex4(std::string_view text) noexcept {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text.substr(0, 4)) {
    const char lower = static_cast<char>(c | 0x20);
    if (is_digit(c)) {
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// Returns the second half of a pair when `text` begins with its escape.
std::optional<std::uint32_t> read_low_surrogate(std::string_view text) noexcept {
  if (!text.starts_with("\\u")) return std::nullopt;
  const auto unit = read_hex4(text.substr(2));
  return unit && *unit >= 0xDC00 && *unit <= 0xDFFF ? unit : std::nullopt;
}

TokenScan read_unicode_escape(std::string_view text, std::string& out) {
  const auto unit = read_hex4(text.substr(2));
  if (!unit) return {1, "four hexadecimal digits"};
  if (*unit < 0xD800 || *unit > 0xDFFF) {
    append_utf8(out, *unit);
    return {6};
  }
  const auto low = *unit < 0xDC00 ? read_low_surrogate(text.substr(6)) : std::nullopt;
  if (!low) {
    out += replacement_character;
    return {6};
  }
  append_utf8(out, 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00));
  return {12};
}

}  // namespace

TokenScan scan_number(std::string_view text) noexcept {
  std::size_t at = 0;
  take(text, at, '-');
  if (!take(text, at, '0') && !take_digits(text, at)) return {0, "a value"};
  if (take(text, at, '.') && !take_digits(text, at)) return {at, "a digit after the decimal point"};
  if (take(text, at, 'e') || take(text, at, 'E')) {
    if (!take(text, at, '+')) take(text, at, '-');
    if (!take_digits(text, at)) return {at, "a digit in the exponent"};
  }
  return {at};
}

TokenScan read_escape(std::string_view text, std::string& out) {
  static constexpr std::string_view names = "\"\\/bfnrt";
  static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  if (text.size() < 2) return {1, "an escape"};
  if (text[1] == 'u') return read_unicode_escape(text, out);
  const std::size_t which = names.find(text[1]);
  if (which == std::string_view::npos) return {1, "an escape"};
  out.push_back(meanings[which]);
  return {2};
}

bool unescape_json(std::string_view content, std::string& out) {
  for (;;) {
    const std::size_t escape = content.find('\\');
    out.append(content.substr(0, escape));
    if (escape == std::string_view::npos) return true;
    content.remove_prefix(escape);
    const TokenScan scan = read_escape(content, out);
    if (!scan.is_whole()) return false;
    content.remove_prefix(scan.bytes);
  }
}

}  // namespace tandem::net::text
