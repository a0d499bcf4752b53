// The decode actor: every decoding lane takes part in every step; what is decided here is how many drafts each one
// verifies.
//
// Drafts cost rows: they pay while few lanes run (a step is bound by reading weights) and cost when many do, so
// speculation is on for up to `lanes_max` lanes. The engine prepares drafts at the end of a step: a lane verifies what
// it asked for one step earlier.
#pragma once

#include <map>

#include "actors/handles.hpp"

namespace tandem::actors {

struct SpeculationPolicy {
  std::uint32_t drafts = 0;     // per lane and step; 0 = off
  std::uint32_t lanes_max = 2;  // above this many lanes no drafts are prepared
};

// The logic without an actor around it.
class DecodeLanes {
 public:
  explicit DecodeLanes(SpeculationPolicy policy) : policy_(policy) {}
  void set_policy(SpeculationPolicy policy) { policy_ = policy; }
  void begin(RequestId id, std::uint32_t prepared) { prepared_.emplace(id, prepared); }
  void drop(RequestId id) { prepared_.erase(id); }
  void reset() { prepared_.clear(); }
  DecodePlan plan();
  void commit(const gpu::StepResult& result);
  std::size_t size() const noexcept { return prepared_.size(); }

 private:
  SpeculationPolicy policy_;
  std::map<RequestId, std::uint32_t> prepared_;  // drafts that the engine holds for a lane
};

decode_actor spawn_decode(caf::actor_system& system, SpeculationPolicy policy);

}  // namespace tandem::actors
