// The main line of the sampler; the steps before the draw are penalties.cpp and truncation.cpp.
#include "gpu/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/sampling/mass.hpp"
#include "gpu/sampling/penalties.hpp"
#include "gpu/sampling/truncation.hpp"

namespace tandem::gpu {
namespace {

TokenId best_token(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The first token, by id, at which the masses so far exceed u of all; weights as truncated_weights returns them.
TokenId draw_by_mass(std::span<const double> weights, double u) {
  std::uint64_t total = 0, sum = 0;
  for (const double weight : weights) total += mass_of(weight);
  const std::uint64_t drawn = mass_drawn(u, total);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += mass_of(weights[i]);
    if (sum > drawn) return static_cast<TokenId>(i);
  }
  return 0;  // not reached: the best token has a mass
}

// log of the sum of e^logit, the sum in double.
double log_total(std::span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  std::vector<float> exps(logits.begin(), logits.end());
  for (float& value : exps) value -= most;
  simd::exp(exps.data(), static_cast<std::int64_t>(exps.size()));
  return double{most} + std::log(std::accumulate(exps.begin(), exps.end(), 0.0));
}

}  // namespace

Result<SampledToken> sample_token(std::span<const float> logits, const DrawContext& context) {
  const auto adjusted = adjusted_logits(logits, context);
  if (!adjusted) return adjusted.error();
  const SamplingParams& params = context.params;
  if (params.temperature <= 0.0F) return describe_token(logits, best_token(*adjusted), params.top_logprobs);
  const std::vector<double> weights = truncated_weights(*adjusted, params);
  const double u = uniform({params.seed, context.position, DrawPurpose::target});
  return describe_token(logits, draw_by_mass(weights, u), params.top_logprobs);
}

Result<std::vector<double>> processed_distribution(std::span<const float> logits, const DrawContext& context) {
  const auto adjusted = adjusted_logits(logits, context);
  if (!adjusted) return adjusted.error();
  if (context.params.temperature <= 0.0F) {
    std::vector<double> one_hot(logits.size(), 0.0);
    one_hot[static_cast<std::size_t>(best_token(*adjusted))] = 1.0;
    return one_hot;
  }
  std::vector<double> weights = truncated_weights(*adjusted, context.params);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;
  return weights;
}

TokenId draw_token(std::span<const double> weights, double u) noexcept {
  const double target = u * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  TokenId last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = static_cast<TokenId>(i);
    sum += weights[i];
    if (sum > target) break;
  }
  return last;
}

SampledToken describe_token(std::span<const float> logits, TokenId token, std::int32_t top_logprobs) {
  SampledToken result;
  result.id = token;
  if (top_logprobs < 0) return result;
  const double total = log_total(logits);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(double{logits[static_cast<std::size_t>(id)]} - total);
  };
  result.logprob = logprob(token);
  const std::size_t count = std::min(static_cast<std::size_t>(top_logprobs), logits.size());
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), TokenId{0});
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](TokenId a, TokenId b) {
                      const float la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
                      return la != lb ? la > lb : a < b;
                    });
  for (std::size_t i = 0; i < count; ++i) result.top.push_back({order[i], logprob(order[i])});
  return result;
}

}  // namespace tandem::gpu
