// Feeding and ending. Two sides can end a choice: the parser (stop string, closed call block) and the engine (stop id,
// length).
#include "net/http/chat_choice.hpp"

#include "net/http/logprob_json.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem::net::http {

ChatChoice::ChatChoice(const text::Tokenizer& tokenizer, ChoiceOptions options)
    : tokenizer_(tokenizer),
      engine_stop_ids_(options.engine_stop_ids),
      has_logprobs_(options.has_logprobs),
      parser_(tokenizer, std::move(options.output)),
      contract_(options.contract) {}

void ChatChoice::feed(const gpu::SampledToken& token) {
  if (has_ended_) return;
  ++completion_tokens_;
  if (has_logprobs_) append_logprob(logprobs_, token, tokenizer_);
  text::Events fresh = parser_.feed(static_cast<text::TokenId>(token.id));
  contract_.pass(fresh);
  std::ranges::move(fresh, std::back_inserter(events_));
  if (!parser_.has_ended()) return;
  engine_ends_too_ = std::ranges::find(engine_stop_ids_, token.id) != engine_stop_ids_.end();
  end(text::EndCause::end_of_turn);
}

void ChatChoice::finish(const actors::Finish& finish) {
  finish_ = finish;
  if (has_ended_ || has_failed()) return;
  end(finish.reason == actors::FinishReason::length ? text::EndCause::length : text::EndCause::end_of_turn);
}

bool ChatChoice::has_failed() const noexcept {
  if (violation_) return true;
  if (!finish_ || has_ended_) return false;
  return finish_->reason == actors::FinishReason::error || finish_->reason == actors::FinishReason::cancelled;
}

void ChatChoice::end(text::EndCause cause) {
  text::Events last = parser_.finish(cause);
  contract_.pass(last);
  violation_ = contract_.violation();
  if (violation_) std::erase_if(last, [](const text::Event& event) { return event.kind == text::EventKind::finish; });
  std::ranges::move(last, std::back_inserter(events_));
  has_ended_ = true;
}

}  // namespace tandem::net::http
