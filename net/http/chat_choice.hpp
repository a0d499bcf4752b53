// ChatChoice: one choice of a chat answer, from sampled tokens to parser events, with its counts and log-probabilities.
#pragma once

#include "actors/generation.hpp"
#include "net/text/answer_contract.hpp"
#include "net/text/output_parser.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::net::http {

struct ChoiceOptions {
  text::OutputOptions output;
  text::AnswerContract contract;
  const std::vector<gpu::TokenId>& engine_stop_ids;  // at which the engine ends by itself
  bool has_logprobs = false;
};

class ChatChoice {
 public:
  // All references must outlive this.
  ChatChoice(const text::Tokenizer& tokenizer, ChoiceOptions options);

  // Reads the next token. What follows an end that the parser found is ignored.
  void feed(const gpu::SampledToken& token);
  // The engine is done with it.
  void finish(const actors::Finish& finish);

  // Returns the events since the last call.
  text::Events take_events() { return std::exchange(events_, {}); }
  // Returns the JSON entries of the tokens read since the last call, comma-separated.
  std::string take_logprobs() { return std::exchange(logprobs_, {}); }

  // Its finish event was produced.
  bool has_ended() const noexcept { return has_ended_; }
  // The parser found its end, and the engine will not notice by itself.
  bool is_complete_early() const noexcept { return has_ended_ && !finish_ && !engine_ends_too_; }
  const std::optional<actors::Finish>& engine_finish() const noexcept { return finish_; }
  // The engine gave up, or the answer breaks a promise: not an end that a client may take for an answer.
  bool has_failed() const noexcept;
  // How it breaks the promise, if it does.
  const std::optional<std::string>& violation() const noexcept { return violation_; }

  std::uint32_t completion_tokens() const noexcept { return completion_tokens_; }
  std::uint32_t reasoning_tokens() const noexcept { return static_cast<std::uint32_t>(parser_.reasoning_tokens()); }

 private:
  void end(text::EndCause cause);

  const text::Tokenizer& tokenizer_;
  const std::vector<gpu::TokenId>& engine_stop_ids_;
  const bool has_logprobs_;
  text::OutputParser parser_;
  text::AnswerContract contract_;
  std::optional<std::string> violation_;
  text::Events events_;
  std::string logprobs_;
  std::optional<actors::Finish> finish_;
  std::uint32_t completion_tokens_ = 0;
  bool engine_ends_too_ = false;
  bool has_ended_ = false;
};

}  // namespace tandem::net::http
