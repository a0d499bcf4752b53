// Visits every matrix of a model, e.g. to let a backend build its own form of it.
#pragma once

#include <functional>

#include "gpu/weights.hpp"

namespace tandem::gpu {

// Calls `visit` once for each Linear that exists, embedding tables excluded: those are read by row, never multiplied.
void for_each_linear(ModelWeights& weights, const std::function<void(Linear&)>& visit);

}  // namespace tandem::gpu
