// The part of `tandem bench` that measures EXL3 products by themselves; it needs a CUDA device and no model.
#pragma once

#include "ops/verb.hpp"

namespace tandem::ops {

// Adds `kernels` below `bench`. In a build without CUDA it says so and fails.
void add_bench_kernels(CLI::App& bench_verb, Run& run);

}  // namespace tandem::ops
