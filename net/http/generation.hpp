// Generation: the requests that one HTTP exchange has with the actors, one a choice. Leaving its scope cancels what
// still runs.
#pragma once

#include "actors/front_door.hpp"
#include "net/http/exchange.hpp"
#include "net/http/token_inbox.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace tandem::net::http {

class Generation {
 public:
  // Watches `exchange` from now on. Both references must outlive this.
  Generation(actors::FrontDoor& door, Exchange& exchange, int choices, std::size_t unsent_bytes_max);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Submits the request of the next choice.
  void submit(actors::GenerationRequest request);
  // Sleeps until there is news or `timeout` passed; returns whether there is.
  Awaitable<bool> wait(std::chrono::milliseconds timeout) { return wakeup_.wait(timeout); }
  // Takes the news; choices that were rejected or finished need no cancel any more.
  InboxNews take();
  // Ends one choice within a step; it will still be heard as finished(cancelled).
  void cancel(std::size_t choice);
  // Ends one choice whose answer is complete; it will be heard as finished(stop).
  void complete(std::size_t choice);

 private:
  struct Running {
    actors::RequestId id;
    bool is_over;
  };
  actors::FrontDoor& door_;
  Wakeup wakeup_;
  std::shared_ptr<TokenInbox> inbox_;
  std::vector<Running> running_;
};

}  // namespace tandem::net::http
