// The part of `tandem bench` that measures chunks of a prompt; it needs a CUDA device and no model.
#pragma once

#include "ops/verb.hpp"

namespace tandem::ops {

// Adds `prefill` below `bench`. In a build without CUDA it says so and fails.
void add_bench_prefill(CLI::App& bench_verb, Run& run);

}  // namespace tandem::ops
