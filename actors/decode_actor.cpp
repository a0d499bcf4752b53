// The lanes that decode, and the actor that answers for them.
#include "actors/decode_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/last_words.hpp"

namespace tandem::actors {

DecodePlan DecodeLanes::plan() {
  const std::uint32_t next = lanes_.size() <= policy_.lanes_max ? policy_.drafts : 0;
  DecodePlan plan;
  plan.drafts_of_joiners = next;
  plan.work.reserve(lanes_.size());
  for (auto& [id, lane] : lanes_) {
    const std::uint32_t own = lane.pause > 0 ? 0 : next;
    if (lane.pause > 0) --lane.pause;
    plan.work.push_back({id, std::exchange(lane.prepared, own), own});
  }
  return plan;
}

void DecodeLanes::commit(const gpu::StepResult& result) {
  for (const gpu::LaneResult& fresh : result.lanes) {
    const auto lane = lanes_.find(fresh.id);
    if (lane == lanes_.end()) continue;
    if (!fresh.error.empty())
      lanes_.erase(lane);
    else
      learn(lane->second, fresh);
  }
}

// The step that is prepared already still verifies: what it brings is learnt when the pause is over.
void DecodeLanes::learn(Lane& lane, const gpu::LaneResult& result) const {
  constexpr double weight = 0.25;  // of the newest step
  if (result.drafted == 0 || lane.pause > 0) return;
  lane.yield += weight * (static_cast<double>(result.accepted) / result.drafted - lane.yield);
  if (lane.yield >= policy_.yield_min) return;
  lane.pause = policy_.pause_steps;
  lane.yield = policy_.yield_min;  // one good try and it goes on, one bad one and it pauses again
}

namespace {

struct DecodeState {
  DecodeLanes lanes{SpeculationPolicy{}};
  static inline const char* name = "decode";
  std::string report() const { return fmt::format(R"({{"actor":"decode","lanes":{}}})", lanes.size()); }
};

decode_actor::behavior_type decode_behavior(decode_actor::stateful_pointer<DecodeState> self,
                                            SpeculationPolicy policy) {
  self->state.lanes.set_policy(policy);
  self->set_exception_handler(keep_exception);
  return {
      [self](begin_atom, RequestId id, std::uint32_t prepared) { self->state.lanes.begin(id, prepared); },
      [self](drop_atom, RequestId id) { self->state.lanes.drop(id); },
      [self](commit_atom, const CommitBatch& batch) { self->state.lanes.commit(*batch.result); },
      [self, policy](reset_atom, std::uint32_t drafts_max) {
        self->state.lanes.reset();
        SpeculationPolicy possible = policy;
        possible.drafts = std::min(policy.drafts, drafts_max);
        self->state.lanes.set_policy(possible);
      },
      [self](plan_rows_atom) { return self->state.lanes.plan(); },
      [self](inspect_atom) { return self->state.report(); },
  };
}

}  // namespace

decode_actor spawn_decode(caf::actor_system& system, SpeculationPolicy policy) {
  return system.spawn(decode_behavior, policy);
}

}  // namespace tandem::actors
