// Lane: one open sequence of an engine between steps: its caches, its sampler and what it will feed next.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/engine_sampler.hpp"
#include "gpu/state/sequence_state.hpp"
#include "gpu/step_plan.hpp"

namespace tandem::gpu {

struct Lane {
  SequenceId id = 0;
  std::unique_ptr<SequenceState> state;
  LaneSampler sampler;
  std::uint32_t prompt_tokens = 0;  // 0 = unknown
  bool decoding = false;            // `next` holds the newest sampled token, not yet fed
  TokenId next = -1;
  std::vector<TokenId> drafts;  // proposals for the tokens behind `next`
  std::string error;            // not empty: dead, only closing is allowed
};

// What one lane does in one step.
struct LaneWork {
  Lane* lane = nullptr;
  std::int64_t start = 0;       // first position fed
  std::int32_t count = 0;       // rows fed
  std::int32_t upper = 0;       // trailing rows that run through all layers
  std::int32_t first_row = -1;  // of the upper rows in the forward result
  std::uint32_t drafted = 0;
  std::uint32_t accepted = 0;
  std::uint32_t next_drafts = 0;
  bool sample = false;
  std::vector<SampledToken> emitted;
};

}  // namespace tandem::gpu
