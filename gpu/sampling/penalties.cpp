// Penalties, bias and forbidden ids; see the header for the order.
#include "gpu/sampling/penalties.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "gpu/sampling/logit_edit.hpp"

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

using Edits = std::vector<LogitEdit>;

void penalise_repetition(const DrawContext& context, std::size_t vocabulary, Edits& edits) {
  const float penalty = context.params.repetition_penalty;
  if (penalty == 1.0F) return;
  std::vector<bool> seen(vocabulary, false);
  for (const auto& tokens : {context.prompt, context.generated}) {
    for (const TokenId token : tokens) {
      if (!in_vocabulary(token, vocabulary) || seen[static_cast<std::size_t>(token)]) continue;
      seen[static_cast<std::size_t>(token)] = true;
      edits.push_back({token, LogitEdit::Kind::repeated, penalty});
    }
  }
}

void penalise_presence_and_frequency(const DrawContext& context, std::size_t vocabulary, Edits& edits) {
  const SamplingParams& params = context.params;
  if (params.presence_penalty == 0.0F && params.frequency_penalty == 0.0F) return;
  std::map<TokenId, int> counts;
  for (const TokenId token : context.generated) {
    if (in_vocabulary(token, vocabulary)) ++counts[token];
  }
  for (const auto& [token, count] : counts) {
    const float penalty = params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
    edits.push_back({token, LogitEdit::Kind::lowered, penalty});
  }
}

void forbid(std::span<const TokenId> tokens, std::size_t vocabulary, Edits& edits) {
  for (const TokenId token : tokens) {
    if (in_vocabulary(token, vocabulary)) edits.push_back({token, LogitEdit::Kind::forbidden, 0});
  }
}

}  // namespace

std::vector<LogitEdit> logit_edits(const DrawContext& context, std::size_t vocabulary) {
  Edits edits;
  penalise_repetition(context, vocabulary, edits);
  penalise_presence_and_frequency(context, vocabulary, edits);
  for (const LogitBias& bias : context.params.logit_bias) {
    if (!in_vocabulary(bias.token, vocabulary)) continue;
    const bool forbids = bias.bias <= -100.0F;
    edits.push_back({bias.token, forbids ? LogitEdit::Kind::forbidden : LogitEdit::Kind::raised, bias.bias});
  }
  forbid(context.params.forbidden, vocabulary, edits);
  if (context.generated.size() < context.params.min_tokens) forbid(context.params.stop_ids, vocabulary, edits);
  std::stable_sort(edits.begin(), edits.end(),
                   [](const LogitEdit& a, const LogitEdit& b) { return a.token < b.token; });
  return edits;
}

Result<std::vector<float>> adjusted_logits(std::span<const float> logits, const DrawContext& context) {
  if (auto ok = check_logits(logits); !ok) return ok.error();
  if (!any_allowed(logits)) return Error{ErrorCode::corrupt, "logits", "no finite value", "finite numbers"};
  std::vector<float> adjusted(logits.begin(), logits.end());
  for (const LogitEdit& edit : logit_edits(context, logits.size())) {
    float& value = adjusted[static_cast<std::size_t>(edit.token)];
    value = edited(edit, value);
  }
  if (!any_allowed(adjusted))
    return Error{ErrorCode::invalid_argument, "sampling", "every token is forbidden", "at least one allowed"};
  return adjusted;
}

}  // namespace tandem::gpu
