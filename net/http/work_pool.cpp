// An Asio thread pool behind a door that costs no compile time.
//
// A job that is dropped instead of skipped would keep its coroutine, and with it a handle to an IO context, until the
// pool dies. So the pool is never stopped as a whole: its queue runs empty, and jobs become nothing once stop_ is set.
#include "net/http/work_pool.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace tandem::net::http {
namespace asio = boost::asio;

struct WorkPool::Pool {
  explicit Pool(int threads) : threads(static_cast<std::size_t>(std::max(threads, 1))) {}
  asio::thread_pool threads;
};

namespace {

Awaitable<bool> call(std::function<void()> work, std::stop_token stop) {
  if (stop.stop_requested()) co_return false;
  work();
  co_return !stop.stop_requested();
}

}  // namespace

WorkPool::WorkPool(int threads) : pool_(std::make_unique<Pool>(threads)) {}

WorkPool::~WorkPool() {
  join();
}

void WorkPool::stop() {
  stop_.request_stop();
}

void WorkPool::join() {
  stop();
  pool_->threads.join();
}

Awaitable<bool> WorkPool::run(std::function<void()> work) {
  auto job = call(std::move(work), stop_.get_token());
  co_return co_await asio::co_spawn(pool_->threads, std::move(job), asio::use_awaitable);
}

}  // namespace tandem::net::http
