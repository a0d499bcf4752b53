// Feeding and ending. Two sides can end a choice: the parser (stop string, closed call block) and the engine (stop id,
// length).
#include "net/http/chat_choice.hpp"

#include "net/http/logprob_json.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem::net::http {
namespace {

// After a call block the model writes its end of turn. Waiting for it lets the request end by itself instead of as an
// abort.
constexpr int tokens_awaited_after_calls = 3;

}  // namespace

ChatChoice::ChatChoice(const text::Tokenizer& tokenizer, text::OutputOptions options,
                       const std::vector<gpu::TokenId>& engine_stop_ids, bool has_logprobs)
    : tokenizer_(tokenizer),
      engine_stop_ids_(engine_stop_ids),
      has_logprobs_(has_logprobs),
      parser_(tokenizer, std::move(options)) {}

void ChatChoice::feed(const gpu::SampledToken& token) {
  if (has_ended_) {
    ++tokens_after_end_;
    return;
  }
  ++completion_tokens_;
  if (has_logprobs_) append_logprob(logprobs_, token, tokenizer_);
  text::Events fresh = parser_.feed(static_cast<text::TokenId>(token.id));
  std::ranges::move(fresh, std::back_inserter(events_));
  if (!parser_.has_ended()) return;
  const bool engine_ends_too = std::ranges::find(engine_stop_ids_, token.id) != engine_stop_ids_.end();
  tokens_awaited_ = engine_ends_too || !parser_.matched_stop() ? tokens_awaited_after_calls : 0;
  end(text::EndCause::end_of_turn);
}

void ChatChoice::finish(const actors::Finish& finish) {
  finish_ = finish;
  if (has_ended_ || has_failed()) return;
  end(finish.reason == actors::FinishReason::length ? text::EndCause::length : text::EndCause::end_of_turn);
}

bool ChatChoice::has_failed() const noexcept {
  if (!finish_ || has_ended_) return false;
  return finish_->reason == actors::FinishReason::error || finish_->reason == actors::FinishReason::cancelled;
}

void ChatChoice::end(text::EndCause cause) {
  text::Events last = parser_.finish(cause);
  std::ranges::move(last, std::back_inserter(events_));
  has_ended_ = true;
}

}  // namespace tandem::net::http
