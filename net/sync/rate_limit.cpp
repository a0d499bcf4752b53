// Appointments on one time line.
#include "net/sync/rate_limit.hpp"

#include <algorithm>

#include "net/sync/limits.hpp"

namespace tandem::net::sync {

void RateLimit::take(std::uint64_t bytes, const std::function<void()>& while_waiting) {
  if (bytes_per_s_ == 0) return;
  std::unique_lock lock(mutex_);
  const auto mine = std::max(next_, Clock::now());
  const std::chrono::duration<double> length(static_cast<double>(bytes) / static_cast<double>(bytes_per_s_));
  next_ = mine + std::chrono::duration_cast<Clock::duration>(length);
  for (;;) {
    if (stopped_.wait_until(lock, std::min(mine, Clock::now() + working_every), [this] { return is_stopped_; })) return;
    if (Clock::now() >= mine) return;
    lock.unlock();
    while_waiting();
    lock.lock();
  }
}

void RateLimit::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  stopped_.notify_all();
}

void RateLimit::resume() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = false;
  next_ = Clock::now();
}

}  // namespace tandem::net::sync
