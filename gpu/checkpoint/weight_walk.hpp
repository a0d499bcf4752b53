// The walk over all resident weights of a rank, in the order of the forward pass: which there are, and how each is cut
// over the ranks. Said once, for whoever loads them (MatrixLoader) or only wants to know their sizes (the memory plan).
#pragma once

#include "gpu/checkpoint/weight_slicer.hpp"
#include "gpu/config.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

// Fills `into` through `slicer`; what is cut how is said by the name of the slicer's function. Ends early once the
// slicer has an error.
void walk_weights(WeightSlicer& slicer, ModelWeights& into, const ModelConfig& config, bool with_draft);

}  // namespace tandem::gpu
