// The pace is the mean distance of the last few ends.
#include "actors/drain_rate.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::actors {

namespace {

constexpr std::size_t ends_kept = 32;
constexpr double seconds_max = 60;  // a client that comes back later has given up

}  // namespace

void DrainRate::note_end(TimePoint now, std::size_t waiting) {
  if (waiting == 0) return ends_.clear();
  ends_.push_back(now);
  if (ends_.size() > ends_kept) ends_.pop_front();
}

std::uint32_t DrainRate::seconds_for(std::size_t waiting) const {
  if (ends_.size() < 2) return 1;
  const double span = std::chrono::duration<double>(ends_.back() - ends_.front()).count();
  const double seconds = span / static_cast<double>(ends_.size() - 1) * static_cast<double>(waiting);
  return static_cast<std::uint32_t>(std::ceil(std::clamp(seconds, 1.0, seconds_max)));
}

}  // namespace tandem::actors
