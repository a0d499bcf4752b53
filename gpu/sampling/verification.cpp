// Keyed exact verification and rejection sampling; acceptance and residual draws have random numbers of their own.
#include "gpu/sampling/verification.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gpu/sampling/sampler.hpp"

namespace tandem::gpu {

std::size_t count_accepted(std::span<const TokenId> drafts, std::span<const TokenId> choices) noexcept {
  const std::size_t length = std::min(drafts.size(), choices.size());
  return static_cast<std::size_t>(
      std::mismatch(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(length), choices.begin()).first -
      drafts.begin());
}

RejectionChoice verify_by_rejection(const RejectionRow& row) {
  const double residual_u = uniform({row.seed, row.position, DrawPurpose::residual});
  const bool padding = row.draft < 0 || static_cast<std::size_t>(row.draft) >= row.p.size();
  if (padding) return {false, draw_token(row.p, residual_u)};
  const auto draft = static_cast<std::size_t>(row.draft);
  if (row.p[draft] > uniform({row.seed, row.position, DrawPurpose::acceptance}) * row.q[draft])
    return {true, row.draft};
  std::vector<double> residual(row.p.size());
  std::transform(row.p.begin(), row.p.end(), row.q.begin(), residual.begin(),
                 [](double p, double q) { return std::max(0.0, p - q); });
  // p equals q up to rounding: nothing is left over, any draw of p is right.
  const bool empty = std::accumulate(residual.begin(), residual.end(), 0.0) <= 0.0;
  return {false, draw_token(empty ? row.p : std::span<const double>(residual), residual_u)};
}

}  // namespace tandem::gpu
