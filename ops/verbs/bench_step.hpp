// The part of `tandem bench` that measures decode and verify steps; it needs a CUDA device and no model.
#pragma once

#include "ops/verb.hpp"

namespace tandem::ops {

// Adds `step` below `bench`. In a build without CUDA it says so and fails.
void add_bench_step(CLI::App& bench_verb, Run& run);

}  // namespace tandem::ops
