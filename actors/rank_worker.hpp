// The rank worker: the one thread that touches an engine. A detached actor, so loading and stepping may block.
//
// It loads on (start), reports its state to its supervisor, answers (execute, StepPlan) with RankAnswer, and dies with
// its engine: after any failed step it aborts the communicator (so that no peer waits for it), reports `failed` and
// quits.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "actors/messages.hpp"
#include "gpu/comm/communicator.hpp"

namespace tandem::actors {

// How a supervisor reaches into a worker that is busy: loading stops at the next check, a waiting collective wakes up.
class RankControl {
 public:
  std::atomic<bool> stop{false};  // read by the loader between chunks; relaxed flag, nothing is published through it
  // Makes the communicator reachable for abort(); aborts it at once if that was asked for before.
  void attach(gpu::Communicator* communicator);
  void release();
  void abort(const std::string& reason);

 private:
  std::mutex mutex_;
  gpu::Communicator* communicator_ = nullptr;
  std::string abort_reason_;
};

struct RankWorkerOptions {
  int rank = 0;
  std::string run_id;
  gpu::EngineOptions engine;
  std::function<Result<std::unique_ptr<gpu::Communicator>>()> connect;  // called once, on the worker's thread
  std::shared_ptr<RankControl> control;
  caf::actor supervisor;  // gets (rank_state, RankState, worker handle)
};

caf::actor spawn_rank_worker(caf::actor_system& system, RankWorkerOptions options);

}  // namespace tandem::actors
