// TransferMeter: turns received bytes into a rate and the time that is left, and says so twice a second.
#pragma once

#include <chrono>
#include <deque>
#include <functional>

#include "net/fetch/progress.hpp"
#include "net/fetch/session.hpp"

namespace tandem::net::fetch {

class TransferMeter {
 public:
  // `look` fills in what is done; the meter adds rate and time. `watch` must outlive it.
  TransferMeter(Session& session, const FetchWatch& watch, std::function<FetchProgress()> look)
      : watch_(watch), look_(std::move(look)), tick_(session.context()) {}

  void receive(std::uint64_t bytes) noexcept { received_ += bytes; }
  std::uint64_t received() const noexcept { return received_; }
  // Reports until end().
  Awaitable<void> report();
  void end();
  void tell();

 private:
  using Clock = std::chrono::steady_clock;
  double rate();

  const FetchWatch& watch_;
  std::function<FetchProgress()> look_;
  boost::asio::steady_timer tick_;
  bool has_ended_ = false;
  std::uint64_t received_ = 0;
  struct Sample {
    Clock::time_point time;
    std::uint64_t received;
  };
  std::deque<Sample> samples_{{Clock::now(), 0}};  // of the last ten seconds
};

}  // namespace tandem::net::fetch
