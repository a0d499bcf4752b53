// Penalties, bias and forbidden ids; see the header for the order.
#include "gpu/sampling/penalties.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace tandem::gpu {
namespace {

constexpr float forbidden = -std::numeric_limits<float>::infinity();

bool in_vocabulary(TokenId token, std::size_t size) {
  return token >= 0 && static_cast<std::size_t>(token) < size;
}

Result<void> check_logits(std::span<const float> logits) {
  if (logits.empty())
    return Error{ErrorCode::invalid_argument, "logits", "no values", "one per token of the vocabulary"};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      return Error{ErrorCode::corrupt, "logits", "a value that is not finite at token " + std::to_string(i),
                   "finite numbers"};
    }
  }
  return {};
}

bool any_allowed(std::span<const float> logits) {
  return std::any_of(logits.begin(), logits.end(), [](float value) { return value > forbidden; });
}

void penalise_repetition(std::vector<float>& logits, const DrawContext& context) {
  const float penalty = context.params.repetition_penalty;
  if (penalty == 1.0F) return;
  std::vector<bool> seen(logits.size(), false);
  for (const auto& tokens : {context.prompt, context.generated}) {
    for (const TokenId token : tokens) {
      if (in_vocabulary(token, logits.size())) seen[static_cast<std::size_t>(token)] = true;
    }
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (seen[i]) logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
  }
}

void penalise_presence_and_frequency(std::vector<float>& logits, const DrawContext& context) {
  const SamplingParams& params = context.params;
  if (params.presence_penalty == 0.0F && params.frequency_penalty == 0.0F) return;
  std::map<TokenId, int> counts;
  for (const TokenId token : context.generated) {
    if (in_vocabulary(token, logits.size())) ++counts[token];
  }
  for (const auto& [token, count] : counts) {
    logits[static_cast<std::size_t>(token)] -=
        params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  }
}

void forbid(std::vector<float>& logits, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    if (in_vocabulary(token, logits.size())) logits[static_cast<std::size_t>(token)] = forbidden;
  }
}

}  // namespace

Result<std::vector<float>> adjusted_logits(std::span<const float> logits, const DrawContext& context) {
  if (auto ok = check_logits(logits); !ok) return ok.error();
  if (!any_allowed(logits)) return Error{ErrorCode::corrupt, "logits", "no finite value", "finite numbers"};
  std::vector<float> adjusted(logits.begin(), logits.end());
  penalise_repetition(adjusted, context);
  penalise_presence_and_frequency(adjusted, context);
  for (const LogitBias& bias : context.params.logit_bias) {
    if (!in_vocabulary(bias.token, adjusted.size())) continue;
    float& value = adjusted[static_cast<std::size_t>(bias.token)];
    value = bias.bias <= -100.0F ? forbidden : value + bias.bias;
  }
  forbid(adjusted, context.params.forbidden);
  if (context.generated.size() < context.params.min_tokens) forbid(adjusted, context.params.stop_ids);
  if (!any_allowed(adjusted))
    return Error{ErrorCode::invalid_argument, "sampling", "every token is forbidden", "at least one allowed"};
  return adjusted;
}

}  // namespace tandem::gpu
