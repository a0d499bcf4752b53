// Deadline: bounds every operation on a socket. When it passes, the socket's pending operations are cancelled and
// has_passed() is true.
//
// Unlike beast::tcp_stream it does not close the socket, so that "408 Request Timeout" can still be said.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>

namespace tandem::net::http {

class Deadline {
 public:
  explicit Deadline(boost::asio::ip::tcp::socket& socket);
  ~Deadline();
  // Starts (or restarts) the countdown.
  void arm(std::chrono::milliseconds duration);
  void disarm();
  bool has_passed() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the pending timer handler, which may run after the connection is gone
};

}  // namespace tandem::net::http
