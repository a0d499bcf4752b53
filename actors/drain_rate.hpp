// DrainRate: how fast requests have been ending while others waited, for an honest retry-after. Knows no clock: the
// caller says when.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace tandem::actors {

class DrainRate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A running request ended. Ends with nobody waiting behind them say nothing about a full queue: they are forgotten.
  void note_end(TimePoint now, std::size_t waiting);
  // Returns the seconds that `waiting` requests need to leave the queue at the pace of late: 1 to 60, 1 if unknown.
  std::uint32_t seconds_for(std::size_t waiting) const;

 private:
  std::deque<TimePoint> ends_;  // the latest ones, oldest first
};

}  // namespace tandem::actors
