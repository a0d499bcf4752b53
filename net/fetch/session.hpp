// Session: the threads of one fetch: one for the network, one for flushing the disk, two for hashing; and how they end.
//
// All coroutines run on the thread that calls run(). stop() ends run() where it stands: coroutines are destroyed with
// the session, which closes their sockets and files; what the journals say is all that the next run needs.
#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>

#include "engram/error.hpp"
#include "net/fetch/awaitable.hpp"

namespace tandem::net::fetch {

class Session {
 public:
  explicit Session(std::stop_token stop) : outer_stop_(std::move(stop)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { join(); }

  boost::asio::io_context& context() noexcept { return context_; }
  boost::asio::thread_pool& disk() noexcept { return disk_; }
  boost::asio::thread_pool& hashing() noexcept { return hashing_; }
  // Asked to stop: by the caller or by stop(). For loops on the pools.
  std::stop_token token() const noexcept { return inner_stop_.get_token(); }

  // Ends run(). Any thread.
  void stop() noexcept {
    inner_stop_.request_stop();
    context_.stop();
  }

  // Starts a coroutine that run() will carry. An exception of it is a defect: it stops the session.
  void start(Awaitable<void> work) {
    boost::asio::co_spawn(context_, std::move(work), [this](std::exception_ptr failure) {
      if (failure) note_defect(failure);
    });
  }

  // Runs until every coroutine has ended. Errors: cancelled (stopped), internal.
  Result<void> run() {
    const std::stop_callback stopper(outer_stop_, [this] { stop(); });
    context_.run();
    context_.restart();
    if (defect_) return Error{ErrorCode::internal, "fetch", *defect_, ""};
    if (inner_stop_.stop_requested()) return Error{ErrorCode::cancelled, "fetch", "stopped", ""};
    return {};
  }

  // Runs one coroutine to its end. Errors: its own, and those of run().
  template <class T>
  Result<T> run(Awaitable<Result<T>> work) {
    Result<T> result = Error{ErrorCode::internal, "fetch", "no result", ""};
    start(put_result(std::move(work), result));
    if (auto ran = run(); !ran) return ran.error();
    return result;
  }

  // Waits for what the pools are doing; nothing may be started on them afterwards.
  void join() {
    disk_.join();
    hashing_.join();
  }

 private:
  template <class T>
  static Awaitable<void> put_result(Awaitable<Result<T>> work, Result<T>& result) {
    result = co_await std::move(work);
  }

  void note_defect(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      defect_ = error.what();
    }
    stop();
  }

  std::stop_token outer_stop_;
  std::stop_source inner_stop_;
  std::optional<std::string> defect_;
  boost::asio::thread_pool disk_{1};  // one thread: flushes and journal lines keep their order
  boost::asio::thread_pool hashing_{2};
  boost::asio::io_context context_{1};  // the last member: coroutines go before the pools that they use
};

}  // namespace tandem::net::fetch
