// The coroutine vocabulary of this folder: awaitables whose errors are values, and blocking work on another thread.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <type_traits>
#include <utility>

namespace tandem::net::fetch {

template <class T>
using Awaitable = boost::asio::awaitable<T>;

inline constexpr auto as_values = boost::asio::as_tuple(boost::asio::use_awaitable);

template <class Job, class Result>
Awaitable<void> keep_result(Job job, std::optional<Result>& result) {
  result.emplace(job());
  co_return;
}

// Runs `job` on the pool and returns its result on the caller's own executor. What the job refers to must outlive the
// pool's threads, not only this coroutine.
template <class Job>
Awaitable<std::invoke_result_t<Job>> run_on(boost::asio::thread_pool& pool, Job job) {
  std::optional<std::invoke_result_t<Job>> result;
  co_await boost::asio::co_spawn(pool, keep_result(std::move(job), result), boost::asio::use_awaitable);
  co_return std::move(*result);
}

// Waits; never longer, and shorter only when the whole fetch is stopped.
inline Awaitable<void> wait_for(std::chrono::milliseconds duration) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, duration);
  co_await timer.async_wait(as_values);
}

}  // namespace tandem::net::fetch
