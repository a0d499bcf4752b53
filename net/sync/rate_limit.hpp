// RateLimit: keeps several threads together below so many bytes a second.
//
// Each piece is given a time at which it may be sent; the times stand as far apart as the pieces are long. No burst is
// saved up: the same cable carries the tensors of a running deployment.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace tandem::net::sync {

class RateLimit {
 public:
  // 0: no limit.
  explicit RateLimit(std::uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  // Waits until `bytes` more may be sent, or stop() is called; calls `while_waiting` every second. Any thread.
  void take(
      std::uint64_t bytes, const std::function<void()>& while_waiting = [] {});
  // Lets everybody through until resume().
  void stop();
  void resume();

 private:
  using Clock = std::chrono::steady_clock;
  const std::uint64_t bytes_per_s_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  Clock::time_point next_ = Clock::now();
  bool is_stopped_ = false;
};

}  // namespace tandem::net::sync
