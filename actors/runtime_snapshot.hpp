// RuntimeSnapshot: what the node knows about itself at one moment, copied out for /health, /metrics, /status and the
// console.
//
// The supervisor and the scheduler publish into a SnapshotBoard (one mutex with its data); readers copy. Reading never
// waits for a GPU, a step or an actor.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "actors/step_trace.hpp"
#include "gpu/engine.hpp"

namespace tandem::actors {

enum class NodeState : std::uint8_t {
  init,
  preflight,
  rendezvous,
  selfcheck,
  loading,
  building,
  warmup,
  ready,
  draining,
  stopped,
  failed
};

// Returns the state's name in lower case, e.g. "loading".
const char* to_string(NodeState state) noexcept;

struct RankReport {
  int rank = 0;
  NodeState state = NodeState::init;
  double progress = 0;  // of the current state, 0..1
  std::string detail;   // what is being done, or why it failed
};

struct MemorySample {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t rss_bytes = 0;
  std::string level = "ok";  // ok, low, critical
};

// A cumulative histogram with fixed upper bounds in seconds (or tokens).
struct Histogram {
  std::vector<double> bounds;         // ascending; +Inf is implied
  std::vector<std::uint64_t> counts;  // one per bound plus the +Inf bucket, not cumulative
  double sum = 0;
  std::uint64_t count = 0;
  void observe(double value);
};

struct Counters {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generation_tokens = 0;
  std::uint64_t finished_stop = 0;
  std::uint64_t finished_length = 0;
  std::uint64_t finished_error = 0;
  std::uint64_t aborted = 0;
  std::uint64_t rejected = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t rank_losses = 0;
  std::uint64_t recoveries = 0;  // lost rank groups that came back
  std::uint64_t steps = 0;
  std::uint64_t drafts = 0;  // decode lanes that verified at least one draft
  std::uint64_t draft_tokens = 0;
  std::uint64_t accepted_tokens = 0;
  std::array<std::uint64_t, 8> accepted_per_position{};
  gpu::EngramUse engram;  // of all steps and ranks
};

struct RuntimeSnapshot {
  NodeState state = NodeState::init;
  std::string detail;
  std::vector<RankReport> ranks;
  gpu::EngineInfo engine;  // meaningful once ready
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  double kv_usage = 0;  // 0..1
  Counters counters;
  Histogram time_to_first_token, inter_token_latency, request_latency, queue_time, prefill_time, decode_time,
      inference_time;
  Histogram prompt_length, generation_length, step_tokens;
  std::array<double, step_parts> step_seconds{};  // of all steps, by StepPart
  MemorySample memory;
  std::string run_id;
};

class SnapshotBoard {
 public:
  SnapshotBoard();
  RuntimeSnapshot read() const;
  // Applies `change(snapshot)` under the lock; `change` must be short and must not throw.
  template <class Change>
  void update(Change&& change) {
    std::lock_guard lock{mutex_};
    change(snapshot_);
  }

 private:
  mutable std::mutex mutex_;
  RuntimeSnapshot snapshot_;
};

}  // namespace tandem::actors
