// The router: scores of every expert, the best k by biased score, their weights from the unbiased ones.
#include <cmath>
#include <limits>

#include "gpu/cpu/linear_ops.hpp"
#include "gpu/cpu/moe_ops.hpp"

namespace tandem::gpu {
namespace {

// log(1 + e^x), linear above 20 where the difference is below FP32.
float softplus(float x) {
  return x > 20.0F ? x : std::log1p(std::exp(x));
}

// Index of the largest value not taken yet, lower index first; a NaN is never larger than anything.
std::int32_t best_free(const std::vector<float>& biased, const std::vector<bool>& taken) {
  std::int32_t best = -1;
  float most = -std::numeric_limits<float>::infinity();
  for (std::size_t e = 0; e < biased.size(); ++e) {
    if (taken[e]) continue;
    if (best < 0 || biased[e] > most) {
      best = static_cast<std::int32_t>(e);
      most = std::isnan(biased[e]) ? -std::numeric_limits<float>::infinity() : biased[e];
    }
  }
  return best;
}

void choose_experts(const float* scores, const RouteCall& call, std::int64_t experts, std::int64_t t) {
  std::vector<float> biased(scores, scores + experts);
  std::vector<bool> taken(static_cast<std::size_t>(experts), false);
  if (call.bias != nullptr) {
    for (std::int64_t e = 0; e < experts; ++e) biased[static_cast<std::size_t>(e)] += call.bias[e];
  }
  auto* ids = call.out.ids.row<std::int32_t>(t);
  auto* weights = call.out.weights.row<float>(t);
  float sum = 0;
  for (std::int64_t j = 0; j < call.out.ids.cols; ++j) {
    ids[j] = best_free(biased, taken);
    taken[static_cast<std::size_t>(ids[j])] = true;
    weights[j] = scores[ids[j]];
    sum += weights[j];
  }
  for (std::int64_t j = 0; j < call.out.ids.cols; ++j)
    weights[j] = weights[j] / (sum + 1e-20F) * static_cast<float>(call.scaling);
}

}  // namespace

void cpu_route(CpuContext& context, const RouteCall& call) {
  const std::int64_t experts = call.gate->n;
  std::vector<float> scores(static_cast<std::size_t>(call.x.rows * experts));
  cpu_linear(context, call.x, *call.gate, {.q8 = false, .round_output = false},
             Tensor::f32(scores.data(), call.x.rows, experts));
  context.for_each_row(call.x.rows, 32 * experts, [&](std::int64_t t) {
    float* row = scores.data() + t * experts;
    for (std::int64_t e = 0; e < experts; ++e)
      row[e] = std::sqrt(softplus(row[e] / static_cast<float>(call.temperature)));
    choose_experts(row, call, experts, t);
  });
}

}  // namespace tandem::gpu
