// ServedModel: the whole server in this process (supervisor, scheduler, request actors, ranks, HTTP on a loopback port
// of its own) with streaming clients, and a log of every step that it runs.
#pragma once

#include <memory>
#include <vector>

#include "actors/node_options.hpp"
#include "ops/verbs/thread_times.hpp"

namespace tandem::ops {

struct ServedOptions {
  std::string model;
  std::string backend;
  std::string numerics;
  int ranks = 1;
  int threads = 0;
  int lanes_max = 8;
  int drafts = 0;          // of every lane in every step: lanes whose drafts fail do not pause
  bool runs_ahead = true;  // a step is sent while the one before it runs
};

struct LoadOptions {
  int lanes = 1;
  int prompt = 0;         // tokens of each lane's question, roughly
  int warm_steps = 0;     // with all lanes decoding, before the first that counts
  int steps = 0;          // that count
  int answer_tokens = 0;  // at most, of each lane
};

// One step as it ran: the plan can be run again by bare ranks.
struct SeenStep {
  actors::StepTrace trace;
  gpu::StepPlan plan;
};

// What was seen between two moments of an undisturbed run of decode steps with the same lanes.
struct SteadyRun {
  std::size_t first = 0, last = 0;  // steps [first, last) of the log; step `last` was seen too
  double tokens_per_step = 0;       // of one lane
  double seconds = 0;
  std::map<std::string, ThreadTime> cpu_per_step;  // by the threads' names
};

class ServedModel {
 public:
  // Starts the server and waits until it is ready. Errors: bad_config, those of loading, io (no port).
  static Result<std::unique_ptr<ServedModel>> start(const ServedOptions& options);
  virtual ~ServedModel() = default;

  // Runs `load` until its steps are seen, then hangs up and waits until nothing runs. Errors: unavailable (a stream
  // ended too early, the server failed), timeout.
  virtual Result<SteadyRun> measure(const LoadOptions& load) = 0;
  // Stops the server; returns everything it ran, in order.
  virtual std::vector<SeenStep> stop() = 0;
  // How its ranks were loaded.
  virtual const gpu::EngineOptions& engine_options() const = 0;
};

}  // namespace tandem::ops
