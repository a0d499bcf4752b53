// The sequential part of DSpark: draft i is sampled from the block's base logits plus a bias that depends on draft i-1.
#pragma once

#include <span>
#include <vector>

#include "gpu/model/dspark.hpp"

namespace tandem::gpu {

// Results of the block pass, block_size rows a lane.
struct DraftBlock {
  Tensor hidden;       // [lanes * block, D] before the final norm
  Tensor base_logits;  // [lanes * block, vocab]
};

// Chains the drafts of all lanes left to right: e = markov_embed[previous]; logits = base + markov_head e, FP32; the
// best id, ties to the lower one. Confidence: dot(w, concat(hidden, e)). Every rank scores its own vocabulary rows; the
// ranks exchange their best.
Result<std::vector<Draft>> chain_drafts(const StepContext& step, const DraftBlock& block,
                                        std::span<const DraftLane> lanes);

}  // namespace tandem::gpu
