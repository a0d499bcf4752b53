// WorkPool: threads for work that would hold up an IO thread, such as encoding a prompt of half a million tokens.
#pragma once

#include "net/http/exchange.hpp"

#include <functional>
#include <memory>
#include <stop_token>

namespace tandem::net::http {

class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // as join()
  // Gives up: work that has not begun is skipped, work that runs is asked to stop. Returns at once.
  void stop();
  // stop(), then waits until the last coroutine was sent on its way. The IO contexts of awaiting coroutines must still
  // exist.
  void join();
  // Long work looks at this and returns early, with whatever it has.
  std::stop_token stop_token() const { return stop_.get_token(); }

  // Runs `work` on a pool thread; the awaiting coroutine goes on afterwards on its own thread. Returns false if the
  // pool was stopped before the work ended: its result is then worth nothing. An exception of `work` arrives there.
  Awaitable<bool> run(std::function<void()> work);

 private:
  struct Pool;
  std::stop_source stop_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tandem::net::http
