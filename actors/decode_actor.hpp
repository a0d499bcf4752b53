// The decode actor: every decoding lane takes part in every step; what is decided here is how many drafts each one
// verifies.
//
// Drafts cost rows and passes of the draft network; they pay where enough of them are accepted. Each lane therefore
// keeps the yield of its last drafts: below `yield_min` it decodes plainly for a while and then tries again. Above
// `lanes_max` lanes nobody drafts. The engine prepares drafts at the end of a step: a lane verifies what it asked for
// one step earlier. None of this changes a text.
#pragma once

#include <map>

#include "actors/handles.hpp"

namespace tandem::actors {

struct SpeculationPolicy {
  std::uint32_t drafts = 0;     // per lane and step; 0 = off
  std::uint32_t lanes_max = 8;  // above this many lanes no drafts are prepared
  // Share of the drafts that must be accepted. Measured with the tiny model on a CPU: three drafts make a step cost
  // 2.3 (8 lanes) to 2.8 times (1 lane) as much, so 0.43 to 0.61 of them pay for themselves.
  double yield_min = 0.6;
  std::uint32_t pause_steps = 16;  // plain steps before the next try
};

// The logic without an actor around it.
class DecodeLanes {
 public:
  explicit DecodeLanes(SpeculationPolicy policy) : policy_(policy) {}
  void set_policy(SpeculationPolicy policy) { policy_ = policy; }
  void begin(RequestId id, std::uint32_t prepared) { lanes_.emplace(id, Lane{prepared}); }
  void drop(RequestId id) { lanes_.erase(id); }
  void reset() { lanes_.clear(); }
  DecodePlan plan();
  void commit(const gpu::StepResult& result);
  std::size_t size() const noexcept { return lanes_.size(); }

 private:
  struct Lane {
    std::uint32_t prepared = 0;  // drafts that the engine holds for it
    double yield = 1;            // moving mean of accepted / verified: hopeful at first
    std::uint32_t pause = 0;     // plain steps still to come
  };
  void learn(Lane& lane, const gpu::LaneResult& result) const;

  SpeculationPolicy policy_;
  std::map<RequestId, Lane> lanes_;
};

decode_actor spawn_decode(caf::actor_system& system, SpeculationPolicy policy);

}  // namespace tandem::actors
