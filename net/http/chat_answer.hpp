// ChatAnswer: a chat request that the actors have accepted, until its answer is complete.
//
// One loop for both modes: take what arrived, feed the choices, then either send their chunks at once or gather them.
// It ends in one of the outcomes below; the caller says what the client hears.
#pragma once

#include "net/http/api_context.hpp"
#include "net/http/chat_choice.hpp"
#include "net/http/chat_request.hpp"
#include "net/http/chat_writer.hpp"
#include "net/http/exchange.hpp"
#include "net/http/generation.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::net::http {

enum class ChatOutcome {
  complete,   // every choice has ended
  failed,     // error() says why
  peer_gone,  // nobody to answer
};

class ChatAnswer {
 public:
  // All references must outlive this.
  ChatAnswer(const ApiContext& context, const ChatJob& job, Exchange& exchange);

  // Submits all choices and waits until each was accepted. On `failed` nothing was sent.
  Awaitable<ChatOutcome> ask();
  // Streams chunks until every choice has ended (the head must have been sent). The last events are the caller's.
  Awaitable<ChatOutcome> stream();
  // Gathers the answer; body() is complete afterwards.
  Awaitable<ChatOutcome> gather();

  const ApiError& error() const noexcept { return error_; }
  std::string body() const { return writer_.body(messages_, usage()); }
  std::string last_events() const { return writer_.last_events(usage()); }

 private:
  std::optional<ChatOutcome> judge(const InboxNews& news);
  void feed(InboxNews& news);
  std::string chunks();
  void gather_events();
  bool has_failed() const;
  bool is_complete() const;
  ChatUsage usage() const;
  ChatOutcome leave();

  const ApiContext& context_;
  const ChatJob& job_;
  Exchange& exchange_;
  Generation generation_;
  ChatWriter writer_;
  std::vector<std::unique_ptr<ChatChoice>> choices_;  // stable addresses
  std::vector<std::string> pending_logprobs_;
  std::vector<ChatMessage> messages_;
  std::uint32_t prompt_tokens_ = 0;
  ApiError error_;
};

}  // namespace tandem::net::http
