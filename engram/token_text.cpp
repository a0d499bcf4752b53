// Unicode steps by utf8proc on UTF-32, everything else by hand, in the reference's order.
#include "engram/token_text.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace tandem::engram {
namespace {

using Text = std::vector<utf8proc_int32_t>;  // code points

constexpr utf8proc_int32_t replacement_character = 0xFFFD;

// Returns the code points of `bytes`, or nothing if it is not valid UTF-8.
std::optional<Text> decode_utf8(std::string_view bytes) {
  Text text;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  auto left = static_cast<utf8proc_ssize_t>(bytes.size());
  while (left > 0) {
    utf8proc_int32_t point = 0;
    const utf8proc_ssize_t used = utf8proc_iterate(at, left, &point);
    if (used <= 0) return std::nullopt;
    text.push_back(point);
    at += used;
    left -= used;
  }
  return text;
}

std::string encode_utf8(const Text& text) {
  std::string bytes;
  std::array<utf8proc_uint8_t, 4> buffer{};
  for (const auto point : text) {
    const auto length = utf8proc_encode_char(point, buffer.data());
    bytes.append(reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(length));
  }
  return bytes;
}

// NFKC followed by NFD. NFD undoes exactly the compositions of NFKC, so the pair is the compatibility decomposition,
// NFKD.
Text decompose(std::string_view bytes) {
  const auto* input = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  const auto length = static_cast<utf8proc_ssize_t>(bytes.size());
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  Text text(bytes.size() * 4 + 16);
  auto points = utf8proc_decompose(input, length, text.data(), static_cast<utf8proc_ssize_t>(text.size()), options);
  if (points > static_cast<utf8proc_ssize_t>(text.size())) {  // some characters decompose into up to 18
    text.resize(static_cast<std::size_t>(points));
    points = utf8proc_decompose(input, length, text.data(), points, options);
  }
  text.resize(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(points, 0)));
  return text;
}

bool is_mark(utf8proc_int32_t point) noexcept {
  const auto category = utf8proc_category(point);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool is_blank(utf8proc_int32_t point) noexcept {
  return point == ' ' || point == '\t' || point == '\r' || point == '\n';
}

// Unicode White_Space, what Strip removes.
bool is_white_space(utf8proc_int32_t point) noexcept {
  if ((point >= 9 && point <= 13) || point == 0x85) return true;
  const auto category = utf8proc_category(point);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

Text join_blanks(const Text& text) {
  Text joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_blank(text[i])) {
      joined.push_back(text[i]);
    } else if (i == 0 || !is_blank(text[i - 1])) {
      joined.push_back(' ');
    }
  }
  return joined;
}

Text strip(const Text& text) {
  const auto is_ink = [](utf8proc_int32_t point) { return !is_white_space(point); };
  const auto first = std::find_if(text.begin(), text.end(), is_ink);
  const auto last = std::find_if(text.rbegin(), text.rend(), is_ink).base();
  return first < last ? Text(first, last) : Text{};
}

// Byte-level BPE spells bytes as printable characters: 33-126, 161-172 and 174-255 as themselves, the other 68 from
// U+0100 upwards.
std::optional<unsigned char> byte_of_character(utf8proc_int32_t point) {
  static const auto table = [] {
    std::array<int, 256 + 68> bytes{};
    bytes.fill(-1);
    std::size_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      bytes[printable ? static_cast<std::size_t>(byte) : next++] = byte;
    }
    return bytes;
  }();
  if (point < 0 || point >= static_cast<utf8proc_int32_t>(table.size())) return std::nullopt;
  const int byte = table[static_cast<std::size_t>(point)];
  return byte < 0 ? std::nullopt : std::optional(static_cast<unsigned char>(byte));
}

}  // namespace

std::string bytes_of_token(std::string_view token) {
  const auto characters = decode_utf8(token);
  if (!characters) return std::string(token);
  std::string bytes;
  for (const auto point : *characters) {
    const auto byte = byte_of_character(point);
    if (!byte) return std::string(token);
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

std::string normalise(std::string_view text) {
  Text points = decompose(text);
  std::erase_if(points, is_mark);
  for (auto& point : points) point = utf8proc_tolower(point);
  points = join_blanks(points);
  if (points == Text{' '}) return " ";  // protected: the token of a lone blank is a word of its own
  // The reference protects it by U+E000, which therefore reads as a blank wherever it stands.
  points = strip(points);
  std::replace(points.begin(), points.end(), utf8proc_int32_t{0xE000}, utf8proc_int32_t{' '});
  return encode_utf8(points);
}

std::string compression_key(std::string_view token) {
  const std::string bytes = bytes_of_token(token);
  const auto text = decode_utf8(bytes);
  if (!text || std::find(text->begin(), text->end(), replacement_character) != text->end()) return std::string(token);
  std::string normalised = normalise(bytes);
  return normalised.empty() ? bytes : normalised;
}

}  // namespace tandem::engram
