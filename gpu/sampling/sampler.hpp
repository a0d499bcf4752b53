// The sampler: from one row of logits to one token, in the order bias and penalties, forbidden ids, temperature, top_k,
// top_p, min_p, draw.
//
// Everything is a function of (logits, parameters, tokens before, seed, position). Logits are the full vocabulary on
// the host; ties always go to the lower id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engram/error.hpp"
#include "gpu/sampling/philox.hpp"
#include "gpu/step_plan.hpp"

namespace tandem::gpu {

// What a draw depends on besides the logits. The spans must outlive the call.
struct DrawContext {
  const SamplingParams& params;
  std::span<const TokenId> prompt;     // repetition penalty; ids outside the vocabulary are ignored
  std::span<const TokenId> generated;  // all penalties and min_tokens
  std::int64_t position = 0;           // of the token to draw
};

// Draws the token. Errors: corrupt (a logit is NaN or +infinity, or none is finite), invalid_argument (every token is
// forbidden, or there are no logits). Logprobs are filled as params.top_logprobs asks.
Result<SampledToken> sample_token(std::span<const float> logits, const DrawContext& context);

// Returns the distribution that sample_token draws from, [V], sum 1; one-hot at the argmax when greedy. Errors: as
// sample_token.
Result<std::vector<double>> processed_distribution(std::span<const float> logits, const DrawContext& context);

// Returns the first token, by id, at which the cumulative probability exceeds u * total; the last one with any
// probability if rounding leaves none. u in (0, 1); the weights need not sum to 1 but one of them must be positive.
TokenId draw_token(std::span<const double> weights, double u) noexcept;

// Returns `token` with its log-softmax of the raw logits and the `top_logprobs` best tokens (-1: neither, 0: its own
// only).
SampledToken describe_token(std::span<const float> logits, TokenId token, std::int32_t top_logprobs);

}  // namespace tandem::gpu
