// The arithmetic of a step's parts.
#include "actors/step_trace.hpp"

#include <algorithm>
#include <numeric>

namespace tandem::actors {

const char* to_string(StepPart part) noexcept {
  switch (part) {
    case StepPart::plan:
      return "plan";
    case StepPart::dispatch:
      return "dispatch";
    case StepPart::compute:
      return "compute";
    case StepPart::collect:
      return "collect";
    case StepPart::deliver:
      return "deliver";
  }
  return "unknown";
}

StepTrace::Duration StepTrace::total() const noexcept {
  return std::accumulate(parts.begin(), parts.end(), Duration{});
}

void StepTimer::begin(Time now) noexcept {
  *this = {};
  begun_ = now;
}

void StepTimer::sent(Time now) noexcept {
  sent_ = now;
}

void StepTimer::answered(std::size_t rank, Duration computed, Time ended) noexcept {
  computed_ = std::min(computed_, computed);
  if (rank == 0) ended_ = ended;
}

StepTrace StepTimer::finish(Time now, StepTimer* follower) noexcept {
  const Time ended = std::clamp(ended_, sent_, collected_);
  if (follower != nullptr) {
    const bool is_sent = follower->sent_ != Time{};
    const Time cut = is_sent ? std::max(ended, follower->sent_) : now;
    collected_ = std::min(collected_, cut);
    now = cut;
    follower->begun_ = cut;
    if (is_sent) follower->sent_ = cut;
  }
  // Each part is cut to what is left of the span between the scheduler's own two looks at the clock: whatever ranks
  // report, the parts add up.
  const Duration away = collected_ - sent_;
  const Duration compute = std::clamp(computed_, Duration{}, away);
  const Duration collect = std::clamp(collected_ - ended, Duration{}, away - compute);
  StepTrace trace;
  trace.begun = begun_;
  trace.parts = {sent_ - begun_, away - compute - collect, compute, collect, now - collected_};
  return trace;
}

}  // namespace tandem::actors
