// `bench step`: decode and verify steps of one rank of two of a full-size model with random weights.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu::cuda::bench {

struct StepBenchOptions {
  std::filesystem::path config;  // a config.json
  std::vector<int> rows{1, 2, 4, 6, 16};
  std::vector<std::int64_t> contexts{1024, 32768, 131072, 600000};
  bool operations = false;  // also the time of each operation by itself, for 1 and 6 rows
  bool json = false;        // one object a line
};

// Writes a line for each context, number of rows and kind of tokens. Errors: those of RandomShard and of its steps.
Result<void> bench_step(const StepBenchOptions& options, std::ostream& out);

}  // namespace tandem::gpu::cuda::bench
