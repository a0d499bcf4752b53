// The part of `tandem bench` that measures row lookups; it needs a disk and no model.
#pragma once

#include "ops/verb.hpp"

namespace tandem::ops {

// Adds `engram` below `bench`.
void add_bench_engram(CLI::App& bench_verb, Run& run);

}  // namespace tandem::ops
