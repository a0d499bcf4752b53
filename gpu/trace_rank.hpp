// TraceRank: one rank of a trace: model, one sequence, the forward passes, the tensors to write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/model/dspark.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/state/cache_pools.hpp"
#include "gpu/trace.hpp"
#include "gpu/trace_tensors.hpp"

namespace tandem::gpu {

class TraceRank {
 public:
  // Loads the model and opens the sequence.
  static Result<std::unique_ptr<TraceRank>> load(const TraceOptions& options, Communicator& communicator);
  // Runs the whole trace and returns its tensors.
  Result<TraceTensors> run();

 private:
  TraceRank(const TraceOptions& options, std::unique_ptr<Model> model, CacheLayout layout);

  Result<void> prefill();
  Result<void> force_one_by_one();
  Result<void> force_with_drafts();
  // Feeds tokens as one step.
  Result<ForwardResult> feed(std::span<const std::int32_t> tokens, Probe* probe);
  // Adds logits of the first `rows` rows of a result to tensor `name`.
  Result<void> keep_logits(const char* name, const ForwardResult& result, std::int32_t rows, Probe* probe);
  // Draft context of the first `rows` rows of a result, which are committed.
  Result<void> insert(const ForwardResult& result, std::int32_t rows);
  Result<std::vector<std::int32_t>> propose(std::int32_t anchor);

  const TraceOptions& options_;
  std::unique_ptr<Model> model_;
  CachePools pools_;
  std::unique_ptr<SequenceState> sequence_;
  ForwardPass forward_;
  DraftNetwork draft_network_;
  CollectingProbe output_;
};

}  // namespace tandem::gpu
