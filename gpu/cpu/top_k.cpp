// One 64-bit key an entry orders by score and then by index, so that ties need no second comparison.
#include "gpu/cpu/top_k.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace tandem::gpu {
namespace {

// Maps finite floats and +infinity to integers of the same order; -0 and +0 are equal.
std::uint32_t ordered(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace

std::span<const std::int32_t> TopK::select(std::span<const float> scores, std::int64_t count) {
  ranked_.clear();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] > -std::numeric_limits<float>::infinity())) continue;  // NaN too
    ranked_.push_back(std::uint64_t{ordered(scores[i])} << 32 | ~static_cast<std::uint32_t>(i));
  }
  const auto kept = static_cast<std::size_t>(std::min<std::int64_t>(count, static_cast<std::int64_t>(ranked_.size())));
  if (kept < ranked_.size()) {
    std::nth_element(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(kept), ranked_.end(),
                     std::greater<>());
  }
  chosen_.resize(kept);
  for (std::size_t i = 0; i < kept; ++i)
    chosen_[i] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(ranked_[i]));
  std::sort(chosen_.begin(), chosen_.end());
  return chosen_;
}

}  // namespace tandem::gpu
