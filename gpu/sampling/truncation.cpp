// Truncation without sorting the vocabulary: the best tokens are found in growing groups until the group holds enough.
#include "gpu/sampling/truncation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/sampling/mass.hpp"

namespace tandem::gpu {
namespace {

// Orders tokens by falling weight, then by id, as far as asked.
class Ranking {
 public:
  explicit Ranking(std::span<const double> weights) : weights_(weights), order_(weights.size()) {
    std::iota(order_.begin(), order_.end(), TokenId{0});
  }

  std::size_t size() const noexcept { return order_.size(); }

  TokenId at(std::size_t rank) {
    while (rank >= sorted_) sort_more();
    return order_[rank];
  }

 private:
  void sort_more() {
    const std::size_t next = std::min(order_.size(), std::max<std::size_t>(64, 4 * sorted_));
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    std::partial_sort(
        begin, order_.begin() + static_cast<std::ptrdiff_t>(next), order_.end(), [this](TokenId a, TokenId b) {
          const double wa = weights_[static_cast<std::size_t>(a)], wb = weights_[static_cast<std::size_t>(b)];
          return wa != wb ? wa > wb : a < b;
        });
    sorted_ = next;
  }

  std::span<const double> weights_;
  std::vector<TokenId> order_;
  std::size_t sorted_ = 0;
};

// Returns how many of the best tokens stay: at most top_k, then the fewest whose share of those reaches top_p.
std::size_t count_kept(Ranking& ranking, std::span<const double> weights, const SamplingParams& params) {
  std::size_t limit = ranking.size();
  std::uint64_t total = 0;
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < limit) {
    limit = static_cast<std::size_t>(params.top_k);
    for (std::size_t i = 0; i < limit; ++i) total += mass_of(weights[static_cast<std::size_t>(ranking.at(i))]);
  } else {
    for (const double weight : weights) total += mass_of(weight);
  }
  if (params.top_p >= 1.0F) return limit;
  const std::uint64_t needed = mass_needed(params.top_p, total);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < limit; ++i) {
    sum += mass_of(weights[static_cast<std::size_t>(ranking.at(i))]);
    if (sum >= needed) return i + 1;
  }
  return limit;
}

}  // namespace

std::vector<double> truncated_weights(std::span<const float> logits, const SamplingParams& params) {
  const float most = *std::max_element(logits.begin(), logits.end());
  std::vector<float> exps(logits.size());
  std::transform(logits.begin(), logits.end(), exps.begin(),
                 [&](float value) { return (value - most) / params.temperature; });
  for (float& value : exps)
    value = std::isnan(value) ? 0.0F : value;  // inf - inf: the best logit overflowed by a penalty
  simd::exp(exps.data(), static_cast<std::int64_t>(exps.size()));
  std::vector<double> weights(exps.begin(), exps.end());
  const bool limits_k = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < weights.size();
  if (limits_k || params.top_p < 1.0F) {
    Ranking ranking(weights);
    const std::size_t kept = count_kept(ranking, weights, params);
    std::vector<double> chosen(weights.size(), 0.0);
    for (std::size_t i = 0; i < kept; ++i) {
      const auto token = static_cast<std::size_t>(ranking.at(i));
      chosen[token] = weights[token];
    }
    weights = std::move(chosen);
  }
  if (params.min_p > 0.0F) {
    for (double& weight : weights)
      weight = weight >= static_cast<double>(params.min_p) ? weight : 0.0;  // the best weight is 1
  }
  return weights;
}

}  // namespace tandem::gpu
