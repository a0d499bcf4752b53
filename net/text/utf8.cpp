// Decodes by the table of well-formed sequences: the second byte's range depends on the first, the others are 80..BF.
#include "net/text/utf8.hpp"

namespace tandem::net::text {
namespace {

struct Lead {
  std::size_t length;        // bytes of the whole character; 0: no character starts with this byte
  unsigned char second_low;  // lowest and highest legal second byte
  unsigned char second_high;
};

Lead lead_of(unsigned char byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step read_utf8(std::string_view bytes) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const Lead lead = lead_of(at(0));
  if (lead.length == 0) return {Utf8Status::invalid, 0, 1};
  if (lead.length == 1) return {Utf8Status::complete, at(0), 1};
  std::uint32_t code_point = at(0) & (0x7Fu >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Status::incomplete, 0, i};
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (at(i) < low || at(i) > high) return {Utf8Status::invalid, 0, i};
    code_point = (code_point << 6) | (at(i) & 0x3Fu);
  }
  return {Utf8Status::complete, code_point, lead.length};
}

void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const Utf8Step step = read_utf8(bytes);
    if (step.status != Utf8Status::complete) return false;
    bytes.remove_prefix(step.bytes);
  }
  return true;
}

}  // namespace tandem::net::text
