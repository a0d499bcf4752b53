// `bench chunks`: EXL3 products of a prompt's chunk at the shapes of DeepSeek-V4.1-Flash on one of two ranks.
#pragma once

#include <iosfwd>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu::cuda::bench {

struct ChunkBenchOptions {
  int device = 0;
  std::vector<int> rows{1024, 2048};  // of a chunk, at most 2048
};

// Writes a line for each shape and number of rows. Errors: unavailable (no device), resource, those of launches.
Result<void> bench_chunks(const ChunkBenchOptions& options, std::ostream& out);

}  // namespace tandem::gpu::cuda::bench
