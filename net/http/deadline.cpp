// One timer a connection; a handler that was already queued when the timer was re-armed sees a new round number and
// does nothing.
#include "net/http/deadline.hpp"

#include <cstdint>

namespace tandem::net::http {

struct Deadline::State {
  explicit State(boost::asio::ip::tcp::socket& s) : socket(&s), timer(s.get_executor()) {}
  boost::asio::ip::tcp::socket* socket;  // null once the connection is gone
  boost::asio::steady_timer timer;
  std::uint64_t round = 0;
  bool has_passed = false;
};

Deadline::Deadline(boost::asio::ip::tcp::socket& socket) : state_(std::make_shared<State>(socket)) {}

Deadline::~Deadline() {
  state_->socket = nullptr;
  state_->timer.cancel();
}

void Deadline::arm(std::chrono::milliseconds duration) {
  const std::uint64_t round = ++state_->round;
  state_->has_passed = false;
  state_->timer.expires_after(duration);
  state_->timer.async_wait([state = state_, round](const boost::system::error_code& error) {
    if (error || round != state->round || state->socket == nullptr) return;
    state->has_passed = true;
    boost::system::error_code ignored;
    state->socket->cancel(ignored);
  });
}

void Deadline::disarm() {
  ++state_->round;
  state_->timer.cancel();
}

bool Deadline::has_passed() const noexcept {
  return state_->has_passed;
}

}  // namespace tandem::net::http
