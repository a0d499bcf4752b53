// StepTrace: where the time of one step went, as the scheduler saw it. StepTimer takes the times while the step lives.
//
// The parts follow one another and add up to the step: nothing is estimated or counted twice. What counts as compute is
// the shortest time that any rank spent inside Engine::step: the ranks meet at its beginning and in its last exchange,
// so this is the span from the last one's start to the common end, and a rank that waits for one that was woken later
// waits outside of the compute.
//
// Steps do not overlap in this account. One that was sent before the step in front of it was done with begins where
// that one's compute ended, or where it was sent itself if that was later, and the one in front ends there: what
// happens beside the compute of a follower costs no time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tandem::actors {

enum class StepPart : std::uint8_t {
  plan,      // the scheduler asks decode and prefill what to run
  dispatch,  // the plan is sent; until the last rank has begun
  compute,   // every rank is inside Engine::step
  collect,   // from the ranks' end until the scheduler has heard all of them
  deliver,   // tokens to the request actors, their verdicts
};
inline constexpr std::size_t step_parts = 5;

// Returns the part's name, e.g. "compute".
const char* to_string(StepPart part) noexcept;

struct StepTrace {
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  Time begun{};
  std::array<Duration, step_parts> parts{};

  Duration of(StepPart part) const noexcept { return parts[static_cast<std::size_t>(part)]; }
  Duration total() const noexcept;
  Duration outside() const noexcept { return total() - of(StepPart::compute); }
};

// Calls come in the order of the members; begin() starts over.
class StepTimer {
 public:
  using Time = StepTrace::Time;
  using Duration = StepTrace::Duration;

  void begin(Time now) noexcept;
  void sent(Time now) noexcept;
  // A rank's answer: how long it computed and when it ended by its machine's clock. Rank 0 lives on this machine; the
  // clocks of others say nothing here.
  void answered(std::size_t rank, Duration computed, Time ended) noexcept;
  void collected(Time now) noexcept { collected_ = now; }
  // Returns the trace of the step that ends now. `follower`: the step behind it if that is sent or being planned, else
  // null; its beginning is moved to where this one ends.
  StepTrace finish(Time now, StepTimer* follower = nullptr) noexcept;

 private:
  Time begun_{}, sent_{}, ended_{}, collected_{};
  Duration computed_ = Duration::max();
};

}  // namespace tandem::actors
