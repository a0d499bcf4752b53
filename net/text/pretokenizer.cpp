// Two levels: splits one and two cut the text into runs (numbers, ideographs and kana, the rest); split three cuts each
// run that is not a number. Its alternatives are tried in the file's order, named a to f here and in the comments
// below.
#include "net/text/pretokenizer.hpp"

#include "net/text/unicode_class.hpp"
#include "net/text/utf8.hpp"

namespace tandem::net::text {
namespace {

constexpr std::size_t number_group_max = 3;

struct Character {
  std::uint32_t code_point = 0;
  std::size_t bytes = 0;
  UnicodeClass unicode_class = UnicodeClass::none;

  bool is_letter() const { return unicode_class == UnicodeClass::letter; }
  bool is_letter_or_mark() const { return is_letter() || unicode_class == UnicodeClass::mark; }
  bool is_sign() const { return unicode_class == UnicodeClass::punctuation || unicode_class == UnicodeClass::symbol; }
  bool is_line_end() const { return code_point == '\r' || code_point == '\n'; }
  bool is_space() const { return is_white_space(code_point); }
};

// A byte outside every character; above the code space, so that it is in no class and no range.
constexpr std::uint32_t stray_byte = 0x110000;

// Reads the character at `at`; zero bytes at the end of the text.
Character read(std::string_view text, std::size_t at) noexcept {
  if (at >= text.size()) return {stray_byte, 0, UnicodeClass::none};
  const Utf8Step step = read_utf8(text.substr(at, 4));
  if (step.status != Utf8Status::complete) return {stray_byte, 1, UnicodeClass::none};
  return {step.code_point, step.bytes, unicode_class(step.code_point)};
}

bool is_ascii_letter(char c) noexcept {
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z';
}

bool is_ascii_punctuation(std::uint32_t c) noexcept {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}

// Split two: CJK unified ideographs of the first block (up to U+9FA5), hiragana, katakana.
bool is_cjk(std::uint32_t c) noexcept {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

enum class RunKind { number, cjk, other };

RunKind run_kind(const Character& c) noexcept {
  if (c.unicode_class == UnicodeClass::number) return RunKind::number;
  return is_cjk(c.code_point) ? RunKind::cjk : RunKind::other;
}

// Returns the end of the longest run from `at` whose characters satisfy `belongs`.
template <class Predicate>
std::size_t skip_while(std::string_view text, std::size_t at, Predicate belongs) noexcept {
  for (;;) {
    const Character c = read(text, at);
    if (c.bytes == 0 || !belongs(c)) return at;
    at += c.bytes;
  }
}

// d, e, f share the white-space run that begins at `at`: it ends after its last line end if it has one; else at the
// text's end it is whole; else its last character is given back to what follows, unless it is the only one.
std::size_t match_white_space(std::string_view text, std::size_t at) noexcept {
  const std::size_t begin = at;
  std::size_t after_line_end = 0, last = at;
  for (Character c = read(text, at); c.bytes > 0 && c.is_space(); c = read(text, at)) {
    last = at;
    at += c.bytes;
    if (c.is_line_end()) after_line_end = at;
  }
  if (after_line_end > 0) return after_line_end;
  return at == text.size() || last == begin ? at : last;
}

// Returns the end of the match of split three at `at`, or `at` if no alternative matches there.
std::size_t match_alternatives(std::string_view text, std::size_t at) noexcept {
  const auto letter_or_mark = [](const Character& c) { return c.is_letter_or_mark(); };
  const auto sign = [](const Character& c) { return c.is_sign(); };
  const auto line_end = [](const Character& c) { return c.is_line_end(); };
  const Character first = read(text, at);
  const std::size_t second_at = at + first.bytes;

  // a: one ASCII punctuation character and ASCII letters
  if (is_ascii_punctuation(first.code_point) && second_at < text.size() && is_ascii_letter(text[second_at])) {
    std::size_t end = second_at;
    while (end < text.size() && is_ascii_letter(text[end])) ++end;
    return end;
  }
  // b: letters and marks, with one character before them that is no letter, sign or line end. A mark may be that
  // character, and then the run is the same with or without it.
  if (first.is_letter_or_mark()) return skip_while(text, second_at, letter_or_mark);
  const Character second = read(text, second_at);
  if (!first.is_sign() && !first.is_line_end() && second.is_letter_or_mark()) {
    return skip_while(text, second_at + second.bytes, letter_or_mark);
  }
  // c: punctuation and symbols with their line ends, one space allowed before
  const std::size_t signs_at = first.code_point == ' ' ? second_at : at;
  const std::size_t signs_end = skip_while(text, signs_at, sign);
  if (signs_end > signs_at) return skip_while(text, signs_end, line_end);
  return first.is_space() ? match_white_space(text, at) : at;
}

// Returns the end of the first piece of split three: a match, or the gap before the next match.
std::size_t first_piece_end(std::string_view run) noexcept {
  const std::size_t match_end = match_alternatives(run, 0);
  if (match_end > 0) return match_end;
  std::size_t at = read(run, 0).bytes;
  while (at < run.size() && match_alternatives(run, at) == at) at += read(run, at).bytes;
  return at;
}

std::string_view take(std::string_view& from, std::size_t bytes) noexcept {
  const std::string_view taken = from.substr(0, bytes);
  from.remove_prefix(bytes);
  return taken;
}

std::size_t number_group_end(std::string_view run) noexcept {
  std::size_t at = 0;
  for (std::size_t i = 0; i < number_group_max; ++i) at += read(run, at).bytes;
  return at;
}

}  // namespace

std::string_view PieceCursor::next() noexcept {
  if (run_.empty()) {
    if (rest_.empty()) return {};
    const RunKind kind = run_kind(read(rest_, 0));
    run_ = take(rest_, skip_while(rest_, 0, [&](const Character& c) { return run_kind(c) == kind; }));
    run_is_number_ = kind == RunKind::number;
  }
  return take(run_, run_is_number_ ? number_group_end(run_) : first_piece_end(run_));
}

}  // namespace tandem::net::text
