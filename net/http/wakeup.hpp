// Wakeup: lets any thread end the sleep of one coroutine. At most one post is in flight a sleep, however often notify()
// is called.
//
// Owned by the coroutine that waits. Whoever notifies must hold a lock that the owner takes before it drops the Wakeup:
// then no notification can touch an io_context that is gone.
#pragma once

#include "net/http/exchange.hpp"

#include <chrono>
#include <memory>

namespace tandem::net::http {

class Wakeup {
 public:
  explicit Wakeup(boost::asio::any_io_executor executor);
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Any thread. Ends the current wait, or the next one if none is running.
  void notify();
  // The owner's coroutine. Returns true when notified, false when `timeout` passed first.
  Awaitable<bool> wait(std::chrono::milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem::net::http
