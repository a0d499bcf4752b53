// TokenInbox: where actor threads leave what they generate and where one route's coroutine picks it up.
//
// Producers never wait: they append under a short lock and wake the coroutine at most once a sleep, so everything of
// one decode step (or of many, under load) is taken in one go. The inbox is bounded by the output it stands for; past
// the bound the reader is too slow and the request is given up.
#pragma once

#include "actors/generation.hpp"
#include "net/http/wakeup.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tandem::net::http {

// What one choice has heard since the last look, in the order of the protocol.
struct ChoiceNews {
  std::optional<std::uint32_t> accepted;  // prompt tokens
  std::optional<actors::Rejection> rejected;
  std::vector<gpu::SampledToken> tokens;
  std::optional<actors::Finish> finished;
};

struct InboxNews {
  std::vector<ChoiceNews> choices;
  bool is_peer_gone = false;
  bool is_server_stopping = false;
  bool is_reader_too_slow = false;
};

class TokenInbox {
 public:
  TokenInbox(int choices, std::size_t unsent_bytes_max)
      : unsent_bytes_max_(unsent_bytes_max), news_(empty_news(choices)) {}

  // The consumer's side, on its own thread. open() before anything is submitted; after close() nothing is stored or
  // woken.
  void open(Wakeup& wakeup);
  void close();
  InboxNews take();

  // Any thread.
  void tell(Departure departure);
  void put_accepted(std::size_t choice, std::uint32_t prompt_tokens);
  void put_rejected(std::size_t choice, const actors::Rejection& rejection);
  bool put_tokens(std::size_t choice, std::vector<gpu::SampledToken> tokens);  // false: nobody listens
  void put_finished(std::size_t choice, const actors::Finish& finish);

 private:
  static InboxNews empty_news(int choices);
  void wake();

  const std::size_t unsent_bytes_max_;
  std::mutex mutex_;  // guards everything below
  InboxNews news_;
  std::size_t unsent_bytes_ = 0;
  Wakeup* wakeup_ = nullptr;
};

// Returns the sink of one choice; it keeps the inbox alive.
std::shared_ptr<actors::TokenSink> make_sink(std::shared_ptr<TokenInbox> inbox, std::size_t choice);

}  // namespace tandem::net::http
