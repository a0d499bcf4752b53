// Token ids of one answer in, events out: the parser that every API surface shares.
//
// Ids decide, never text: "</think>" ends the reasoning only as its token. Ordinary tokens are decoded to valid UTF-8
// on the way, special ones steer the state machine or vanish; no added token ever reaches a client.
//
// Use: feed() each id until has_ended() or until the engine is done, then finish() once. An id after the end is
// ignored.
#pragma once

#include "net/text/detokenizer.hpp"
#include "net/text/parser_events.hpp"
#include "net/text/tokenizer.hpp"
#include "net/text/turn_parser.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tandem::net::text {

struct OutputOptions {
  TurnOptions turn;
  std::vector<TokenId> stop_token_ids;  // end the turn in every state; their text is not returned
  bool ignores_end_of_turn = false;     // ignore_eos: EOS and turn headers vanish like other special tokens
};

class OutputParser {
 public:
  // The tokenizer, and the tools in the options, must outlive the parser.
  OutputParser(const Tokenizer& tokenizer, OutputOptions options);

  // Takes the next id. One outside the vocabulary gives nothing.
  Events feed(TokenId id);
  // Returns what was held back, and the finish event.
  Events finish(EndCause cause);

  // True when no further id can matter: the engine may stop.
  bool has_ended() const noexcept { return saw_end_ || turn_.has_ended(); }
  bool is_reasoning() const noexcept { return !has_ended() && turn_.is_reasoning(); }
  // Tokens of the reasoning, without </think> itself: usage.completion_tokens_details.reasoning_tokens.
  std::size_t reasoning_tokens() const noexcept { return reasoning_tokens_; }
  std::size_t complete_calls() const noexcept { return turn_.complete_calls(); }
  const std::optional<std::string>& matched_stop() const noexcept { return turn_.matched_stop(); }

 private:
  void feed_text(std::string_view bytes, Events& out);
  void feed_special(std::optional<Markup> markup, Events& out);
  void end_character(Events& out);

  const Tokenizer* tokenizer_;
  std::vector<TokenId> stop_token_ids_;
  bool ignores_end_of_turn_;
  Utf8Stream utf8_;
  TurnParser turn_;
  bool saw_end_ = false;
  std::size_t reasoning_tokens_ = 0;
};

}  // namespace tandem::net::text
