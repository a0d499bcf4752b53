// The contract of a StepPlan, checked before a plan changes anything.
#pragma once

#include <functional>

#include "engram/error.hpp"
#include "gpu/engine_lane.hpp"

namespace tandem::gpu {

struct PlanLimits {
  int lanes_max = 0;
  int chunk_rows_max = 0;
  std::int64_t vocab_size = 0;
  int drafts_max = 0;
};

// Returns the lane with this id or null.
using FindLane = std::function<const Lane*(SequenceId)>;

// Errors: invalid_argument naming the sequence and the rule: closed or used without being open, opened twice, a lane in
// two roles, wrong start, empty or too long chunk, a token outside the vocabulary, a prompt beyond the sequence's
// capacity, decode before the first sample, more drafts than supported. Work for a dead lane and decode at full
// capacity are no breach: plans are sent ahead of results, so the scheduler could not know.
Result<void> check_plan(const StepPlan& plan, const PlanLimits& limits, const FindLane& find);

}  // namespace tandem::gpu
