// A small tokenizer file of the released file's shape: all bytes, a few merges, the markup, placeholders.
#pragma once

#include "net/text/tokenizer.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tandem::net::text::test {

// What the file is made of; the defaults are good, a test spoils one of them.
struct TokenizerSpec {
  // Merges as pairs of raw bytes; each result becomes an entry.
  std::vector<std::pair<std::string, std::string>> merges = {{"h", "e"},    {"l", "l"},   {"he", "ll"},
                                                             {"hell", "o"}, {" ", "t"},   {" t", "he"},
                                                             {"=", "="},    {"==", "=="}, {"\n", "\n"}};
  std::vector<std::string> entries;  // raw bytes, in the vocabulary but made by no merge
  std::vector<std::string> added;    // besides the markup
  std::string without_markup;        // one text to leave out
  int without_byte = -1;             // one byte to leave out
  bool has_pair_merges = false;      // ["a", "b"] instead of "a b"
};

// Returns the text of the file.
std::string tokenizer_text(const TokenizerSpec& spec = {});

// The tokenizer of the default file, loaded once.
const Tokenizer& small_tokenizer();

// Ids that the tests name. Bytes come first in the file, so a byte's id is found by encoding it.
TokenId byte_id(unsigned char byte);
TokenId id_of(Markup markup);

}  // namespace tandem::net::text::test
