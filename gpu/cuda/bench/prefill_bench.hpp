// `bench prefill`: chunks of a prompt through one rank of two of a full-size model with random weights.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu::cuda::bench {

struct PrefillBenchOptions {
  std::filesystem::path config;  // a config.json
  std::vector<int> chunks{1024, 2048, 4096};
  std::vector<std::int64_t> positions{0, 32768, 131072, 600000};
  bool operations = false;  // also the time of each operation by itself, of the first chunk size, at the last position
  bool json = false;        // one object a line
};

// Writes a line for each chunk, position and mode. Errors: those of RandomShard and of its steps.
Result<void> bench_prefill(const PrefillBenchOptions& options, std::ostream& out);

}  // namespace tandem::gpu::cuda::bench
