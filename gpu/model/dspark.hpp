// DraftNetwork: DSpark, the model's own draft network. Proposes up to block_size tokens that the backbone then
// verifies.
//
// Three transformer stages over one block [anchor, noise, noise, ..]: all rows at once, seeing the window of
// *committed* positions (KV made from backbone features, see insert) and each other without a causal mask. A rank-r
// Markov head then chains the tokens left to right. Drafts change speed, never the text.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gpu/model/forward.hpp"

namespace tandem::gpu {

struct DraftLane {
  SequenceState* sequence = nullptr;
  std::int32_t anchor = 0;  // newest sampled token; its position is sequence->length()
  int count = 0;            // drafts wanted, at most block_size
};

struct Draft {
  std::vector<std::int32_t> tokens;
  std::vector<float> confidence;  // raw logits, one a token; empty without a confidence head
};

class DraftNetwork {
 public:
  DraftNetwork(const Model& model, Workspace& workspace) : model_(model), workspace_(workspace) {}

  // Writes the draft context of committed rows from their features [rows, taps * D]. Rejected rows must never come
  // here.
  Result<void> insert(const RowBatch& rows, const Tensor& features, Probe* probe = nullptr);
  // Drafts for every lane; greedy, ties to the lower id. `meanwhile` is called when a device has been given its largest
  // piece of work. Errors: of the communicator.
  Result<std::vector<Draft>> propose(std::span<const DraftLane> lanes, Probe* probe = nullptr,
                                     const std::function<void()>& meanwhile = {});

 private:
  const Model& model_;
  Workspace& workspace_;
};

}  // namespace tandem::gpu
