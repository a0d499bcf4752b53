// ChatChoice: one choice of a chat answer, from sampled tokens to parser events, with its counts and log-probabilities.
#pragma once

#include "actors/generation.hpp"
#include "net/text/output_parser.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::net::http {

class ChatChoice {
 public:
  // `engine_stop_ids`: the ids at which the engine ends by itself. All references must outlive this.
  ChatChoice(const text::Tokenizer& tokenizer, text::OutputOptions options,
             const std::vector<gpu::TokenId>& engine_stop_ids, bool has_logprobs);

  // Reads the next token. What follows an end that the parser found is counted, not read.
  void feed(const gpu::SampledToken& token);
  // The engine is done with it.
  void finish(const actors::Finish& finish);

  // Returns the events since the last call.
  text::Events take_events() { return std::exchange(events_, {}); }
  // Returns the JSON entries of the tokens read since the last call, comma-separated.
  std::string take_logprobs() { return std::exchange(logprobs_, {}); }

  // Its finish event was produced.
  bool has_ended() const noexcept { return has_ended_; }
  // The parser ended it, and the engine will not notice by itself: cancel it.
  bool wants_cancel() const noexcept { return has_ended_ && !finish_ && tokens_after_end_ >= tokens_awaited_; }
  const std::optional<actors::Finish>& engine_finish() const noexcept { return finish_; }
  // The engine gave up: not an end that a client may take for an answer.
  bool has_failed() const noexcept;

  std::uint32_t completion_tokens() const noexcept { return completion_tokens_; }
  std::uint32_t reasoning_tokens() const noexcept { return static_cast<std::uint32_t>(parser_.reasoning_tokens()); }

 private:
  void end(text::EndCause cause);

  const text::Tokenizer& tokenizer_;
  const std::vector<gpu::TokenId>& engine_stop_ids_;
  const bool has_logprobs_;
  text::OutputParser parser_;
  text::Events events_;
  std::string logprobs_;
  std::optional<actors::Finish> finish_;
  std::uint32_t completion_tokens_ = 0;
  int tokens_after_end_ = 0;
  int tokens_awaited_ = 0;
  bool has_ended_ = false;
};

}  // namespace tandem::net::http
