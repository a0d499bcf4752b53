// The batch scheduler: queue, KV accounting, one plan a step, sent to every rank.
//
// Life of a step: close what ended, admit what fits, ask decode for its lanes (never skipped), give the rest of the row
// budget to prefill, send one StepPlan to all ranks, hand the tokens to the request actors and wait for their verdicts,
// commit, begin again. It is pure logic over messages: clock and ranks may be simulated.
//
// Where the next step does not depend on what the running one brings, it is sent ahead of that
// (SchedulerOptions::run_ahead): engines continue from tokens that they hold themselves. A lane that ends is then
// computed once more in vain.
//
// When the ranks are lost all running sequences are parked: their prompt and generated ids are here, so the next rank
// group refills its caches by prefill and every stream continues where it stopped, token for token. Past
// `recovery_window` the requests end.
#pragma once

#include <functional>

#include "actors/handles.hpp"
#include "actors/sequence_book.hpp"
#include "actors/step_trace.hpp"

namespace tandem::actors {

struct SchedulerOptions {
  std::uint32_t step_rows_max = 512;             // rows of one step over all sequences
  std::uint32_t prefill_rows_per_request = 256;  // of one sequence in one step
  std::uint32_t queue_max = 256;
  std::uint64_t queue_tokens_max = 4'000'000;
  bool run_ahead = true;  // send a step while the one before it runs
  std::chrono::milliseconds step_timeout{120'000};
  std::chrono::milliseconds verdict_timeout{5'000};
  std::chrono::milliseconds recovery_window{180'000};
};

// Hears of every step that ended, and of the plan that it ran. Called by the scheduler: must not block or throw.
using StepObserver = std::function<void(const StepTrace& trace, const gpu::StepPlan& plan)>;

struct SchedulerPeers {
  prefill_actor prefill;
  decode_actor decode;
  caf::actor supervisor;  // told (ranks_down, run id, reason) when a step fails; may be empty in tests
  SnapshotBoard* board = nullptr;
  StepObserver on_step;  // may be empty
};

scheduler_actor spawn_scheduler(caf::actor_system& system, SchedulerOptions options, SchedulerPeers peers);

}  // namespace tandem::actors
