// top_k, top_p and min_p: which tokens stay in the draw, as weights over the vocabulary.
#pragma once

#include <span>
#include <vector>

#include "gpu/step_plan.hpp"

namespace tandem::gpu {

// Returns [V] weights e^((logit - max) / temperature), zero for tokens outside top_k, then top_p, then min_p. Not
// normalised; the best token always stays with weight 1. temperature > 0; -infinity gives 0. Ties at a boundary keep
// the lower ids.
std::vector<double> truncated_weights(std::span<const float> logits, const SamplingParams& params);

}  // namespace tandem::gpu
