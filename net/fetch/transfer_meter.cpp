// The rate is that of the last ten seconds: the whole run's would hide a line that became slow.
#include "net/fetch/transfer_meter.hpp"

#include <algorithm>

namespace tandem::net::fetch {
namespace {

constexpr auto tell_every = std::chrono::milliseconds(500);
constexpr std::size_t samples_max = 20;

}  // namespace

Awaitable<void> TransferMeter::report() {
  while (!has_ended_) {
    tick_.expires_after(tell_every);
    co_await tick_.async_wait(as_values);
    if (!has_ended_) tell();
  }
}

void TransferMeter::end() {
  has_ended_ = true;
  tick_.cancel();
}

double TransferMeter::rate() {
  samples_.push_back({Clock::now(), received_});
  if (samples_.size() > samples_max) samples_.pop_front();
  const Sample& first = samples_.front();
  const double seconds = std::chrono::duration<double>(samples_.back().time - first.time).count();
  return seconds > 0 ? static_cast<double>(received_ - first.received) / seconds : 0;
}

void TransferMeter::tell() {
  if (!watch_.progress) return;
  FetchProgress now = look_();
  now.bytes_per_s = rate();
  const auto left = static_cast<double>(now.bytes_total - std::min(now.bytes_done, now.bytes_total));
  now.eta_s = now.bytes_per_s > 0 ? left / now.bytes_per_s : 0;
  watch_.progress(now);
}

}  // namespace tandem::net::fetch
