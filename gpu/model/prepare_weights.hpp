// Visits every matrix of a model, e.g. to let a backend build its own form of it.
#pragma once

#include <functional>

#include "gpu/ops.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

// Calls `visit` once for each Linear that exists, embedding tables excluded: those are read by row, never multiplied.
void for_each_linear(ModelWeights& weights, const std::function<void(Linear&)>& visit);

// Gives every matrix its backend's form, moves everything that operations read to the backend's memory, then prepares
// the experts of each layer. The confidence head stays with the host, which alone reads it.
void prepare_weights(ModelWeights& weights, Ops& ops);

}  // namespace tandem::gpu
