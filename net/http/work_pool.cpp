// An Asio thread pool behind a door that costs no compile time.
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

Awaitable<void> call(std::function<void()> work) {
  work();
  co_return;
}

}  // namespace

WorkPool::WorkPool(int threads) : pool_(std::make_unique<Pool>(threads)) {}

WorkPool::~WorkPool() {
  join();
}

void WorkPool::join() {
  pool_->threads.stop();
  pool_->threads.join();
}

Awaitable<void> WorkPool::run(std::function<void()> work) {
  auto job = call(std::move(work));
  co_await asio::co_spawn(pool_->threads, std::move(job), asio::use_awaitable);
}

}  // namespace tandem::net::http
