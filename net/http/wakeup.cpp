// A timer that never fires by itself, cancelled by a posted handler: Asio's way to sleep until told.
#include "net/http/wakeup.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <mutex>
#include <utility>

namespace tandem::net::http {
namespace asio = boost::asio;

struct Wakeup::State {
  explicit State(asio::any_io_executor executor) : timer(std::move(executor)) {}
  asio::steady_timer timer;  // the owner's thread only
  std::mutex mutex;          // guards the two below
  bool is_notified = false;
  bool is_sleeping = false;
};

Wakeup::Wakeup(asio::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}
Wakeup::~Wakeup() = default;

void Wakeup::notify() {
  std::lock_guard lock{state_->mutex};
  state_->is_notified = true;
  if (!std::exchange(state_->is_sleeping, false)) return;
  asio::post(state_->timer.get_executor(), [weak = std::weak_ptr<State>(state_)] {
    if (const auto state = weak.lock()) state->timer.cancel();
  });
}

Awaitable<bool> Wakeup::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::shared_ptr<State> state = state_;
  for (;;) {
    {
      std::lock_guard lock{state->mutex};
      if (std::exchange(state->is_notified, false)) co_return true;
      if (std::chrono::steady_clock::now() >= deadline) co_return false;
      state->timer.expires_at(deadline);
      state->is_sleeping = true;
    }
    co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
    // A cancel that was posted for an earlier sleep may end this one: look again.
    std::lock_guard lock{state->mutex};
    state->is_sleeping = false;
  }
}

}  // namespace tandem::net::http
