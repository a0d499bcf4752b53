// The lanes that decode, and the actor that answers for them.
#include "actors/decode_actor.hpp"

#include <fmt/format.h>

namespace tandem::actors {

DecodePlan DecodeLanes::plan() {
  const std::uint32_t next = prepared_.size() <= policy_.lanes_max ? policy_.drafts : 0;
  DecodePlan plan;
  plan.drafts_of_joiners = next;
  plan.work.reserve(prepared_.size());
  for (auto& [id, prepared] : prepared_) {
    plan.work.push_back({id, prepared, next});
    prepared = next;
  }
  return plan;
}

void DecodeLanes::commit(const gpu::StepResult& result) {
  for (const gpu::LaneResult& lane : result.lanes)
    if (!lane.error.empty()) prepared_.erase(lane.id);
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
  return {
      [self](begin_atom, RequestId id, std::uint32_t prepared) { self->state.lanes.begin(id, prepared); },
      [self](drop_atom, RequestId id) { self->state.lanes.drop(id); },
      [self](commit_atom, const CommitBatch& batch) { self->state.lanes.commit(*batch.result); },
      [self, policy](reset_atom, std::uint32_t drafts_max) {
        self->state.lanes.reset();
        self->state.lanes.set_policy({std::min(policy.drafts, drafts_max), policy.lanes_max});
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
