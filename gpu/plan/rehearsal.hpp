// Rehearsal: what the largest step of a deployment takes, found by running the real forward pass on a backend that
// computes nothing (rehearsal_ops.hpp). So the plan knows no list of the pass's tensors that could grow stale.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/model/model.hpp"
#include "gpu/plan/rehearsal_ops.hpp"

namespace tandem::gpu {

// What a deployment lets a step be.
struct StepLimits {
  std::int64_t context = 0;  // positions of the longest sequence
  int lanes = 1;
  int prefill_rows = 256;  // rows of one sequence in one step
  int step_rows = 512;     // rows of one step over all sequences
  int drafts = 3;          // verified per lane
};

// What a pass of the largest step holds afterwards, when it was its first.
struct StepUse {
  std::int64_t rows = 0;
  std::int64_t rows_sampled = 0;
  std::uint64_t workspace_bytes = 0;
};

// Runs the largest step at the end of the longest sequence, whatever the backend: a chunk whose first row stops below
// the last KV source, other sequences' rows up to the limit, logits of every lane's verify burst, new drafts. `model`
// has no Engram tables. Errors: those of the caches and the pass.
Result<StepUse> run_largest_step(const Model& model, const StepLimits& limits);

struct RehearsedStep {
  std::int64_t rows = 0;
  std::uint64_t workspace_bytes = 0;  // held by the pass after a first step of this size
  std::uint64_t scratch_bytes = 0;    // of the largest single operation
  std::uint64_t exchange_bytes = 0;   // of the largest exchange over ranks, both sides
  std::uint64_t logits_bytes = 0;     // rows that are sampled on the host
};

class Rehearsal {
 public:
  struct Setup {
    std::string backend = "cpu";  // whose operations are measured: "cpu" or "cuda"
    int ranks = 1;
    int threads = 1;
  };
  // `shapes` is one rank's weights without memory (MeasuredWeights). `config` as the engine has it: no draft stages if
  // the draft network is not loaded.
  Rehearsal(ModelConfig config, const Numerics& numerics, ModelWeights shapes, const Setup& setup);

  // Errors: those of run_largest_step.
  Result<RehearsedStep> run(const StepLimits& limits);

 private:
  std::string backend_;
  int threads_;
  int ranks_;
  std::unique_ptr<Model> model_;
  std::int64_t engram_floats_ = 0;  // a row of Engram input and output; the pass is rehearsed without tables
};

}  // namespace tandem::gpu
