// Every read checks the end; the first error wins and unwinds by return value.
#include "tests/text/json_reference_fixture.hpp"

#include "net/text/json/write.hpp"
#include "net/text/utf8.hpp"

#include <fmt/format.h>

#include <optional>

namespace tandem::net::text::test {
namespace {

constexpr int depth_max = 128;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Json> document() {
    Json value;
    if (!parse_value(value, 0)) return error();
    skip_space();
    if (at_ != text_.size()) {
      fail("the end of the document");
      return error();
    }
    return value;
  }

 private:
  bool parse_value(Json& out, int depth) {
    skip_space();
    if (at_ == text_.size()) return fail("a value");
    switch (text_[at_]) {
      case '{':
        return parse_object(out, depth + 1);
      case '[':
        return parse_array(out, depth + 1);
      case '"': {
        std::string content;
        if (!parse_string(content)) return false;
        out = Json(std::move(content));
        return true;
      }
      case 't':
        return parse_word("true", Json(true), out);
      case 'f':
        return parse_word("false", Json(false), out);
      case 'n':
        return parse_word("null", Json(), out);
      default:
        return parse_number(out);
    }
  }

  bool parse_object(Json& out, int depth) {
    if (depth > depth_max) return fail("at most 128 levels of nesting");
    JsonObject members;
    ++at_;
    skip_space();
    if (!take('}')) {
      do {
        skip_space();
        JsonMember member;
        if (at_ == text_.size() || text_[at_] != '"') return fail("a key");
        if (!parse_string(member.key)) return false;
        skip_space();
        if (!take(':')) return fail("':'");
        if (!parse_value(member.value, depth)) return false;
        place(members, std::move(member));
        skip_space();
      } while (take(','));
      if (!take('}')) return fail("',' or '}'");
    }
    out = Json(std::move(members));
    return true;
  }

  // Adds a member; a repeated key takes the last value and keeps the first place.
  static void place(JsonObject& members, JsonMember member) {
    for (JsonMember& present : members) {
      if (present.key == member.key) {
        present.value = std::move(member.value);
        return;
      }
    }
    members.push_back(std::move(member));
  }

  bool parse_array(Json& out, int depth) {
    if (depth > depth_max) return fail("at most 128 levels of nesting");
    JsonArray items;
    ++at_;
    skip_space();
    if (!take(']')) {
      do {
        if (!parse_value(items.emplace_back(), depth)) return false;
        skip_space();
      } while (take(','));
      if (!take(']')) return fail("',' or ']'");
    }
    out = Json(std::move(items));
    return true;
  }

  bool parse_string(std::string& out) {
    ++at_;
    for (;;) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
      out.append(text_, begin, at_ - begin);
      if (at_ == text_.size()) return fail("the closing quote of a string");
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\' ? !parse_escape(out) : !parse_multibyte(out)) return false;
    }
  }

  static bool is_plain(char c) { return static_cast<unsigned char>(c) - 0x20u < 0x60u && c != '"' && c != '\\'; }

  bool parse_multibyte(std::string& out) {
    if (static_cast<unsigned char>(text_[at_]) < 0x20) return fail("an escape for a control character");
    const Utf8Step step = read_utf8(text_.substr(at_));
    if (step.status != Utf8Status::complete) return fail("valid UTF-8");
    out.append(text_, at_, step.bytes);
    at_ += step.bytes;
    return true;
  }

  bool parse_escape(std::string& out) {
    static constexpr std::string_view names = "\"\\/bfnrt";
    static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    ++at_;
    if (at_ == text_.size()) return fail("an escape");
    if (text_[at_] == 'u') return parse_unicode_escape(out);
    const std::size_t which = names.find(text_[at_]);
    if (which == std::string_view::npos) return fail("an escape");
    out.push_back(meanings[which]);
    ++at_;
    return true;
  }

  bool parse_unicode_escape(std::string& out) {
    const std::optional<std::uint32_t> unit = read_hex4(at_ + 1);
    if (!unit) return fail("four hexadecimal digits");
    at_ += 5;
    if (*unit < 0xD800 || *unit > 0xDFFF) {
      append_utf8(out, *unit);
      return true;
    }
    const bool pair_follows = *unit < 0xDC00 && text_.substr(at_, 2) == "\\u";
    const std::optional<std::uint32_t> low = pair_follows ? read_hex4(at_ + 2) : std::nullopt;
    if (low && *low >= 0xDC00 && *low <= 0xDFFF) {
      append_utf8(out, 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00));
      at_ += 6;
    } else {
      out += replacement_character;
    }
    return true;
  }

  std::optional<std::uint32_t> read_hex4(std::size_t begin) const {
    if (begin + 4 > text_.size()) return std::nullopt;
    std::uint32_t value = 0;
    for (const char c : text_.substr(begin, 4)) {
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

  bool parse_number(Json& out) {
    const std::size_t begin = at_;
    take('-');
    if (!take('0') && !take_digits()) {
      at_ = begin;
      return fail("a value");
    }
    if (take('.') && !take_digits()) return fail("a digit after the decimal point");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!take_digits()) return fail("a digit in the exponent");
    }
    out = Json(JsonNumber{std::string(text_.substr(begin, at_ - begin))});
    return true;
  }

  bool take_digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }

  bool parse_word(std::string_view word, Json value, Json& out) {
    if (text_.substr(at_, word.size()) != word) return fail("a value");
    at_ += word.size();
    out = std::move(value);
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool fail(const char* expected) {
    expected_ = expected;
    return false;
  }

  Error error() const {
    if (at_ >= text_.size())
      return {ErrorCode::bad_format, fmt::format("byte {}", at_), "the end of the text", expected_};
    const auto byte = static_cast<unsigned char>(text_[at_]);
    const bool is_printable = byte > 0x20 && byte < 0x7F;
    std::string found = is_printable ? fmt::format("'{}'", text_[at_]) : fmt::format("byte 0x{:02X}", byte);
    return {ErrorCode::bad_format, fmt::format("byte {}", at_), std::move(found), expected_};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  const char* expected_ = "";
};

}  // namespace

Result<Json> reference_parse_json(std::string_view text) {
  return Parser(text).document();
}

std::string spelled(const Json& value) {
  if (const JsonNumber* number = value.if_number()) return number->text;
  if (const JsonArray* items = value.if_array()) {
    std::string out = "[";
    for (const Json& item : *items) out += spelled(item) + ",";
    return out + "]";
  }
  if (const JsonObject* members = value.if_object()) {
    std::string out = "{";
    for (const JsonMember& member : *members) out += write_json(Json(member.key)) + ":" + spelled(member.value) + ",";
    return out + "}";
  }
  return write_json(value);
}

std::string outcome(const Result<Json>& result) {
  return result.has_error() ? "refused: " + result.error().message() : spelled(*result);
}

}  // namespace tandem::net::text::test
