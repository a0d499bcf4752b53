// The part of `tandem bench` that says where the time of a served decode step goes, and what the same plans take on
// bare ranks.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/verbs/bench_ranks.hpp"
#include "ops/verbs/bench_served.hpp"

namespace tandem::ops {

// The middle of a set of values and what nine of ten stay below.
struct Spread {
  double p50 = 0, p90 = 0;
};

struct Breakdown {
  int lanes = 0, drafts = 0;
  std::size_t steps = 0;
  double tokens_per_step = 0;  // of one lane
  double tokens_per_s = 0;     // of all
  // Seconds. `step` is from the beginning of a step to the beginning of the next one; parts as in StepTrace, where
  // deliver includes what lies between the end of one step and the beginning of the next.
  Spread step;
  std::array<Spread, actors::step_parts> parts;
  Spread outside;            // step - compute
  double outside_share = 0;  // of all steps together
  Spread step_share;         // outside / step of single steps
  Spread bare;               // compute of the same plans without actors and HTTP
  double bare_share = 0;     // what all steps together take longer than bare ranks: outside + disturbed compute
  std::map<std::string, ThreadTime> cpu_per_step;
};

// Runs every plan of the log again, in order, on ranks without actors; returns the compute of each in seconds.
Result<std::vector<double>> replay(BareRanks& ranks, const std::vector<SeenStep>& log);

Breakdown break_down(const SteadyRun& run, const std::vector<SeenStep>& log, const std::vector<double>& bare);

std::string breakdown_table(const std::vector<Breakdown>& rows);
std::string breakdown_json(const Breakdown& row);

}  // namespace tandem::ops
