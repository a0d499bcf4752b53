// The prefill actor: which prompt rows the next step feeds. First come, first served, at most `rows_per_request_max`
// rows of one sequence a step, so that a long prompt never starves the short ones behind it.
#pragma once

#include <deque>

#include "actors/handles.hpp"

namespace tandem::actors {

// The logic without an actor around it.
class PrefillQueue {
 public:
  explicit PrefillQueue(std::uint32_t rows_per_request_max) : rows_per_request_max_(rows_per_request_max) {}
  void begin(PrefillJob job);
  void drop(RequestId id);
  void reset(std::uint32_t rows_per_request_max);
  // Hands out up to `rows_max` rows and remembers them as in flight until commit() or reset().
  std::vector<gpu::PrefillWork> plan(std::uint32_t rows_max);
  // Ends the step in flight: finished jobs leave; lanes that failed leave as well.
  void commit(const gpu::StepResult& result);
  std::size_t size() const noexcept { return jobs_.size(); }

 private:
  struct Job {
    PrefillJob job;
    std::uint32_t fed = 0;        // rows committed
    std::uint32_t in_flight = 0;  // rows of the step being executed
  };
  gpu::PrefillWork next_chunk(Job& job, std::uint32_t rows) const;

  std::deque<Job> jobs_;
  std::uint32_t rows_per_request_max_;
};

prefill_actor spawn_prefill(caf::actor_system& system, std::uint32_t rows_per_request_max);

}  // namespace tandem::actors
