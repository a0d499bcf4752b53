// Cuts plain text into the pieces that byte-pair encoding works on, by the three splits of DeepSeek's tokenizer.json.
//
// The file's regular expressions are written below; the matcher is by hand because a general engine costs more than the
// encoding itself. The splits are "isolated" and nested: each works inside every piece of the one before, so a piece
// border is a text end to the next split. Concatenated, the pieces are the text, byte for byte, also when it is not
// valid UTF-8 (a byte that belongs to no character is a character of no class).
#pragma once

#include <array>
#include <string_view>

namespace tandem::net::text {

// The three patterns as they must stand in the file; Tokenizer::load refuses another splitter.
inline constexpr std::array<std::string_view, 3> split_patterns = {
    R"(\p{N}{1,3})",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

// Walks over the pieces of one text, which must outlive it.
class PieceCursor {
 public:
  explicit PieceCursor(std::string_view text) noexcept : rest_(text) {}

  // Returns the next piece, never empty; an empty view at the end.
  std::string_view next() noexcept;

 private:
  std::string_view rest_;  // behind the current run
  std::string_view run_;   // what is left of the run that the first two splits isolated
  bool run_is_number_ = false;
};

}  // namespace tandem::net::text
