// Greedy by gain per bit: the errors fall by about the same factor with every bit, so no later step is worth more than
// an earlier one of the same group and greedy is optimal up to the last group that does not fit.
#include "gpu/exl3/allocation.hpp"

#include <fmt/format.h>

#include "gpu/exl3/quantise.hpp"

namespace tandem::gpu::exl3 {
namespace {

double gain(const BitGroup& group, int bits, Codebook codebook) {
  const auto error = [&](int k) { return expected_error({static_cast<std::uint8_t>(k), codebook}); };
  return group.sensitivity * (error(bits) - error(bits + 1)) / static_cast<double>(group.weights);
}

Result<void> check(std::span<const BitGroup> groups) {
  for (const BitGroup& group : groups) {
    const bool bits_ok = group.bits_min >= 1 && group.bits_min <= group.bits_max && group.bits_max <= bits_max;
    if (group.weights > 0 && group.sensitivity >= 0 && bits_ok) continue;
    return Error{ErrorCode::invalid_argument, group.name,
                 fmt::format("{} weights, sensitivity {}, {} to {} bits", group.weights, group.sensitivity,
                             group.bits_min, group.bits_max),
                 "weights, a sensitivity of at least 0 and bits from 1 to 8"};
  }
  return {};
}

}  // namespace

Result<std::vector<int>> allocate_bits(std::span<const BitGroup> groups, const BitBudget& budget) {
  if (auto ok = check(groups); !ok) return ok.error();
  std::vector<int> bits;
  double weights = 0, used = 0;
  for (const BitGroup& group : groups) {
    bits.push_back(group.bits_min);
    weights += static_cast<double>(group.weights);
    used += static_cast<double>(group.weights) * group.bits_min;
  }
  const double allowed = budget.bits * weights;
  if (used > allowed) {
    return Error{ErrorCode::invalid_argument, "bits", fmt::format("{}", budget.bits),
                 fmt::format("at least {:.3f}, what the smallest choices take", used / weights)};
  }
  for (;;) {
    std::size_t best = groups.size();
    double best_gain = -1;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (bits[i] >= groups[i].bits_max || used + static_cast<double>(groups[i].weights) > allowed) continue;
      const double value = gain(groups[i], bits[i], budget.codebook);
      if (value <= best_gain) continue;
      best = i;
      best_gain = value;
    }
    if (best == groups.size()) return bits;
    ++bits[best];
    used += static_cast<double>(groups[best].weights);
  }
}

}  // namespace tandem::gpu::exl3
