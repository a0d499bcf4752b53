// The part of `tandem bench` that measures bare ranks: prefill and decode tokens a second, as shares of what this
// machine can do at most.
#pragma once

#include "gpu/machine_limits.hpp"
#include "gpu/step_cost.hpp"
#include "ops/verbs/bench_ranks.hpp"

namespace tandem::ops {

struct ThroughputWork {
  int prompt = 0;  // tokens of each lane
  int decode = 0;  // tokens generated per lane
  int lanes = 0;
  int drafts = 0;
};

struct Throughput {
  ThroughputWork work;
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;  // all lanes
  double tokens_per_step = 0;      // of one lane
};

// Prefills `lanes` sequences of random tokens, each its own, then decodes them together. `step` is the number of the
// ranks' last step and goes on. Errors: those of a step.
Result<Throughput> measure_throughput(BareRanks& ranks, const ThroughputWork& work, std::uint64_t& step);

std::string throughput_heading();
std::string throughput_line(const Throughput& figures, const gpu::MachineLimits& limits, const gpu::StepCost& cost);
std::string throughput_json(const Throughput& figures, const gpu::MachineLimits& limits, const gpu::StepCost& cost);

}  // namespace tandem::ops
