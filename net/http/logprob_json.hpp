// Log-probabilities in OpenAI's shape.
#pragma once

#include "gpu/step_plan.hpp"
#include "net/text/tokenizer.hpp"

#include <string>

namespace tandem::net::http {

// Appends {"token","bytes","logprob","top_logprobs":[...]} to a comma-separated list.
void append_logprob(std::string& list, const gpu::SampledToken& token, const text::Tokenizer& tokenizer);

}  // namespace tandem::net::http
