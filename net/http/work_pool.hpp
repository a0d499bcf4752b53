// WorkPool: threads for work that would hold up an IO thread, such as encoding a prompt of half a million tokens.
#pragma once

#include "net/http/exchange.hpp"

#include <functional>
#include <memory>

namespace tandem::net::http {

class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // as join()
  // Waits for work in progress and forgets what has not begun. The IO contexts of awaiting coroutines must still exist.
  void join();

  // Runs `work` on a pool thread; the awaiting coroutine goes on afterwards on its own thread. An exception of `work`
  // arrives there.
  Awaitable<void> run(std::function<void()> work);

 private:
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tandem::net::http
