// One coroutine a stream, all on one thread. What is read is looked at no closer than needed: the clients share the
// cores with the server that is measured.
#include "ops/verbs/bench_streams.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <mutex>
#include <string_view>
#include <thread>

#include "ops/verbs/thread_times.hpp"

namespace tandem::ops {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view wanted_status = "HTTP/1.1 200 ";

std::string request_of(const std::string& body) {
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

// Posts one request and reads until the server ends; returns why it ended.
asio::awaitable<std::string> stream(std::uint16_t port, std::string request) {
  tcp::socket socket{co_await asio::this_coro::executor};
  const tcp::endpoint server{asio::ip::address_v4::loopback(), port};
  if (auto [error] = co_await socket.async_connect(server, as_result); error) co_return error.message();
  if (auto [error, count] = co_await asio::async_write(socket, asio::buffer(request), as_result); error)
    co_return error.message();
  std::array<char, 16384> buffer;
  std::string start;
  for (;;) {
    auto [error, count] = co_await socket.async_read_some(asio::buffer(buffer), as_result);
    if (start.size() < wanted_status.size()) {
      start.append(buffer.data(), count);
      if (!std::string_view(start).starts_with(wanted_status.substr(0, start.size())))
        co_return "the server answers: " + start;
    }
    if (error) co_return "the stream ended: " + error.message();
    if (std::string_view(buffer.data(), count).find("data: [DONE]") != std::string_view::npos)
      co_return "the answer ended before the measurement";
  }
}

}  // namespace

struct BenchStreams::Parts {
  asio::io_context context{1};
  mutable std::mutex mutex;  // guards failure
  std::optional<std::string> failure;
  std::thread thread;

  void fail(const std::string& why) {
    const std::lock_guard lock{mutex};
    if (!failure) failure = why;
  }
};

BenchStreams::BenchStreams(std::uint16_t port, std::vector<std::string> bodies) : parts_(std::make_unique<Parts>()) {
  for (const std::string& body : bodies)
    asio::co_spawn(parts_->context, stream(port, request_of(body)),
                   [parts = parts_.get()](const std::exception_ptr& failure, const std::string& why) {
                     parts->fail(failure ? "an exception" : why);
                   });
  parts_->thread = std::thread([parts = parts_.get()] {
    name_thread("bench-clients");
    parts->context.run();
  });
}

BenchStreams::~BenchStreams() {
  parts_->context.stop();
  parts_->thread.join();  // the sockets close with the context
}

std::optional<std::string> BenchStreams::failure() const {
  const std::lock_guard lock{parts_->mutex};
  return parts_->failure;
}

}  // namespace tandem::ops
