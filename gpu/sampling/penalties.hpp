// Changes to raw logits that do not depend on each other: penalties, bias, forbidden ids.
#pragma once

#include <span>
#include <vector>

#include "engram/error.hpp"
#include "gpu/sampling/sampler.hpp"

namespace tandem::gpu {

// Returns the logits that temperature and truncation work on; forbidden tokens are -infinity, at least one is not.
// Order: repetition (divides positive, multiplies negative logits of prompt and generated tokens), presence and
// frequency (generated tokens), bias (-100 or less forbids), forbidden ids, stop ids while fewer than min_tokens were
// generated. Errors: as sample_token.
Result<std::vector<float>> adjusted_logits(std::span<const float> logits, const DrawContext& context);

}  // namespace tandem::gpu
