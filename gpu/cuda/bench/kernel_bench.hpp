// `bench kernels`: EXL3 products at the shapes of DeepSeek-V4.1-Flash on one of two ranks.
#pragma once

#include <iosfwd>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu::cuda::bench {

struct KernelBenchOptions {
  int device = 0;
  std::vector<int> rows{1, 2, 4, 6, 8, 16, 64};  // of each call, at most 64
  bool experts_only = false;                     // the grouped ones
  bool json = false;                             // one object a line
};

// Writes a line for each shape and number of rows. Errors: unavailable (no device), resource, those of launches.
Result<void> bench_kernels(const KernelBenchOptions& options, std::ostream& out);

}  // namespace tandem::gpu::cuda::bench
