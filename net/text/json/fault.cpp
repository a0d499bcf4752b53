// A recursive-descent walk. Every read checks the end; the first fault wins and unwinds by return value.
#include "net/text/json/fault.hpp"

#include "net/text/json/parse.hpp"
#include "net/text/json/tokens.hpp"
#include "net/text/utf8.hpp"

#include <string>

namespace tandem::net::text {
namespace {

class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  std::optional<JsonFault> document() {
    if (!pass_value(0)) return fault_;
    skip_space();
    if (at_ != text_.size()) return JsonFault{at_, "the end of the document"};
    return std::nullopt;
  }

 private:
  bool pass_value(int depth) {
    skip_space();
    if (at_ == text_.size()) return fail("a value");
    switch (text_[at_]) {
      case '{':
        return pass_object(depth + 1);
      case '[':
        return pass_array(depth + 1);
      case '"':
        return pass_string();
      case 't':
        return pass_word("true");
      case 'f':
        return pass_word("false");
      case 'n':
        return pass_word("null");
      default:
        return pass_token(scan_number(text_.substr(at_)));
    }
  }

  bool pass_object(int depth) {
    if (depth > json_depth_max) return fail("at most 128 levels of nesting");
    ++at_;
    skip_space();
    if (take('}')) return true;
    do {
      skip_space();
      if (at_ == text_.size() || text_[at_] != '"') return fail("a key");
      if (!pass_string()) return false;
      skip_space();
      if (!take(':')) return fail("':'");
      if (!pass_value(depth)) return false;
      skip_space();
    } while (take(','));
    return take('}') || fail("',' or '}'");
  }

  bool pass_array(int depth) {
    if (depth > json_depth_max) return fail("at most 128 levels of nesting");
    ++at_;
    skip_space();
    if (take(']')) return true;
    do {
      if (!pass_value(depth)) return false;
      skip_space();
    } while (take(','));
    return take(']') || fail("',' or ']'");
  }

  bool pass_string() {
    ++at_;
    while (at_ < text_.size()) {
      if (take('"')) return true;
      if (!pass_character()) return false;
    }
    return fail("the closing quote of a string");
  }

  bool pass_character() {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '\\') {
      character_.clear();
      return pass_token(read_escape(text_.substr(at_), character_));
    }
    if (byte < 0x20) return fail("an escape for a control character");
    const Utf8Step step = read_utf8(text_.substr(at_));
    if (step.status != Utf8Status::complete) return fail("valid UTF-8");
    at_ += step.bytes;
    return true;
  }

  bool pass_token(const TokenScan& scan) {
    at_ += scan.bytes;
    return scan.is_whole() || fail(scan.expected);
  }

  bool pass_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return fail("a value");
    at_ += word.size();
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \n\r\t").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool fail(const char* expected) {
    fault_ = {at_, expected};
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  JsonFault fault_;
  std::string character_;  // what the last escape meant; nobody reads it
};

}  // namespace

std::optional<JsonFault> find_fault(std::string_view text) {
  return Walk(text).document();
}

}  // namespace tandem::net::text
