// Bytes in, valid UTF-8 out, as they come: what a stream may show while a token ends inside a character.
//
// Append-only: what was returned never changes, nothing is decoded twice. An incomplete tail (at most three bytes)
// waits for its rest; bytes that can never become a character turn into one U+FFFD each maximal subpart, at once, and
// the stream goes on.
#pragma once

#include "net/text/tokenizer.hpp"

#include <string>
#include <string_view>

namespace tandem::net::text {

class Utf8Stream {
 public:
  // Appends to `out` what `bytes` completes.
  void push(std::string_view bytes, std::string& out);
  // Ends the current character by force: an incomplete tail becomes U+FFFD. The stream can go on.
  void flush(std::string& out);
  // Forgets an incomplete tail: the output was cut, and its rest would have come.
  void drop_tail() noexcept { tail_.clear(); }

 private:
  std::string tail_;
};

// The same over token ids, for surfaces without an output parser. The tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, AddedTokenText mode = AddedTokenText::left_out)
      : tokenizer_(&tokenizer), mode_(mode) {}

  // Returns the text that this id completes. An id outside the vocabulary gives nothing.
  std::string push(TokenId id);
  // Returns what is left at the end: nothing if the output was cut by its length, else U+FFFD for an incomplete tail.
  std::string finish(bool is_cut);

 private:
  const Tokenizer* tokenizer_;
  AddedTokenText mode_;
  Utf8Stream stream_;
};

}  // namespace tandem::net::text
