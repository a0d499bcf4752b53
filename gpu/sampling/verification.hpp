// Verification of drafts: how many of them the target network would have written itself.
//
// Keyed exact verification is what the engine uses: the target draws every row with the number of that row's position,
// exactly as it would without drafts, and a draft counts iff it is the token drawn. The reply is then the one without
// drafts, bit for bit, at any temperature. Rejection sampling accepts more often with a probabilistic drafter but only
// keeps the distribution, not the reply.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/sampling/philox.hpp"
#include "gpu/step_plan.hpp"

namespace tandem::gpu {

// Returns how many leading drafts equal the target's choices. choices[i] is the target's token after draft i - 1; it
// may be longer than drafts by the bonus row. Greedy requests are the case temperature 0.
std::size_t count_accepted(std::span<const TokenId> drafts, std::span<const TokenId> choices) noexcept;

// One row of rejection sampling. p is the processed target distribution, q the distribution that the draft was drawn
// from, both [V].
struct RejectionRow {
  std::span<const double> p;
  std::span<const double> q;
  TokenId draft = -1;  // outside the vocabulary (padding): always rejected, the token comes from p
  std::uint64_t seed = 0;
  std::int64_t position = 0;  // of the draft's token
};
struct RejectionChoice {
  bool accepted = false;
  TokenId token = -1;  // the draft, or a sample of max(0, p - q) / Z
};
// Accepts the draft with probability min(1, p/q); the emitted token is distributed as p.
RejectionChoice verify_by_rejection(const RejectionRow& row);

}  // namespace tandem::gpu
