// A lane draws through gpu/sampling; what is kept here is only what the next draw depends on.
#include "gpu/engine_sampler.hpp"

#include <algorithm>

#include "gpu/sampling/sampler.hpp"

namespace tandem::gpu {

void LaneSampler::begin(std::span<const TokenId> prompt) {
  const std::size_t replayed = std::min(replayed_, prompt.size());
  const auto own = prompt.first(prompt.size() - replayed);
  prompt_.assign(own.begin(), own.end());
  generated_.clear();
  thinking_ended_ = false;
  opening_used_ = 0;
  for (const TokenId token : prompt.last(replayed)) count(token);
}

Result<SampledToken> LaneSampler::sample(std::span<const float> logits, std::int64_t position) {
  const TokenId forced = forced_token();
  if (forced >= 0) {
    count(forced);
    return describe_token(logits, forced, params_.top_logprobs);
  }
  auto token = sample_token(logits, {params_, prompt_, generated_, position});
  if (token && ends_too_early(token->id)) token = describe_token(logits, params_.think_end_id, params_.top_logprobs);
  if (token) count(token->id);
  return token;
}

SampledToken LaneSampler::take(TokenId drawn) {
  SampledToken token;
  token.id = forced_token();
  if (token.id < 0) token.id = ends_too_early(drawn) ? params_.think_end_id : drawn;
  count(token.id);
  return token;
}

TokenId LaneSampler::forced_token() const noexcept {
  if (!is_thinking()) return opening_used_ < params_.opening.size() ? params_.opening[opening_used_] : -1;
  if (params_.thinking_budget < 0) return -1;
  const bool is_spent = generated_.size() >= static_cast<std::size_t>(params_.thinking_budget);
  return is_spent ? params_.think_end_id : -1;
}

bool LaneSampler::ends_too_early(TokenId token) const noexcept {
  if (!is_thinking() || params_.opening.empty()) return false;
  return std::find(params_.stop_ids.begin(), params_.stop_ids.end(), token) != params_.stop_ids.end();
}

void LaneSampler::count(TokenId token) {
  generated_.push_back(token);
  if (!is_thinking() && opening_used_ < params_.opening.size()) ++opening_used_;
  if (token == params_.think_end_id) thinking_ended_ = true;
}

}  // namespace tandem::gpu
