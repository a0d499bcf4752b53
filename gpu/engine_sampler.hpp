// LaneSampler: how one sequence of an engine draws its tokens: parameters, what was generated so far, the thinking
// budget and the tokens that the answer must begin with.
//
// A draw depends on the logits, the tokens before it and (seed, position) only, so that a token is the same whether it
// is drawn in decode, in a verify row, in any batch or again after a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engram/error.hpp"
#include "gpu/sampling/sampler.hpp"
#include "gpu/step_plan.hpp"

namespace tandem::gpu {

class LaneSampler {
 public:
  LaneSampler() = default;
  LaneSampler(SamplingParams params, std::size_t replayed) : params_(std::move(params)), replayed_(replayed) {}

  // Tells the prompt, replayed ids included, before the first draw.
  void begin(std::span<const TokenId> prompt);
  // Draws the token of `position` from the model's logits and counts it as generated. Errors: corrupt if the logits are
  // not finite.
  Result<SampledToken> sample(std::span<const float> logits, std::int64_t position);
  // The same where `drawn` is what the sampler draws from the logits (see context); describes nothing.
  SampledToken take(TokenId drawn);

  // What the draw of `position` depends on if the tokens `generated` came before it; `generated` begins with those of
  // generated().
  DrawContext context(std::span<const TokenId> generated, std::int64_t position) const {
    return {params_, prompt_, generated, position};
  }
  std::span<const TokenId> generated() const noexcept { return generated_; }
  // Whether tokens come with log probabilities, which takes the logits themselves.
  bool describes() const noexcept { return params_.top_logprobs >= 0; }

 private:
  bool is_thinking() const noexcept { return params_.think_end_id >= 0 && !thinking_ended_; }
  // The token that the thinking budget or the opening demands now, or -1.
  TokenId forced_token() const noexcept;
  // Whether the draw would end a turn whose opening is still to come.
  bool ends_too_early(TokenId token) const noexcept;
  void count(TokenId token);

  SamplingParams params_;
  std::size_t replayed_ = 0;
  std::vector<TokenId> prompt_;
  std::vector<TokenId> generated_;
  bool thinking_ended_ = false;
  std::size_t opening_used_ = 0;
};

}  // namespace tandem::gpu
