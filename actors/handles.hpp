// The typed interfaces of the actors: what each one answers. A handle in a signature says who may be asked what.
#pragma once

#include "actors/messages.hpp"

namespace tandem::actors {

// One client request: owns its limits, its sink and its end.
using request_actor = caf::typed_actor<caf::replies_to<deliver_atom, TokenBatch>::with<Verdict>,
                                       caf::reacts_to<lost_atom, SequenceLost>, caf::reacts_to<cancel_atom>,
                                       caf::reacts_to<complete_atom>, caf::replies_to<inspect_atom>::with<std::string>>;

// Chooses which prompt rows a step feeds. `begin` adds a job, `commit` advances it, `drop` forgets it, `reset` forgets
// all.
using prefill_actor =
    caf::typed_actor<caf::reacts_to<begin_atom, PrefillJob>, caf::reacts_to<drop_atom, RequestId>,
                     caf::reacts_to<commit_atom, CommitBatch>, caf::reacts_to<reset_atom, std::uint32_t>,
                     caf::replies_to<plan_rows_atom, std::uint32_t>::with<PrefillPlan>,
                     caf::replies_to<inspect_atom>::with<std::string>>;

// Chooses how many drafts each decoding lane verifies. A decoding lane is never skipped. `begin` says how many drafts
// the lane's prefill prepared.
using decode_actor =
    caf::typed_actor<caf::reacts_to<begin_atom, RequestId, std::uint32_t>, caf::reacts_to<drop_atom, RequestId>,
                     caf::reacts_to<commit_atom, CommitBatch>, caf::reacts_to<reset_atom, std::uint32_t>,
                     caf::replies_to<plan_rows_atom>::with<DecodePlan>,
                     caf::replies_to<inspect_atom>::with<std::string>>;

// Queue, KV accounting, one plan a step.
using scheduler_actor = caf::typed_actor<
    caf::replies_to<submit_atom, Submit, request_actor>::with<Admission>, caf::reacts_to<ended_atom, RequestId>,
    caf::reacts_to<tick_atom>, caf::reacts_to<ranks_up_atom, RankGroup>, caf::reacts_to<ranks_down_atom, std::string>,
    caf::reacts_to<lost_atom, std::uint64_t>, caf::replies_to<drain_atom, std::uint32_t>::with<drained_atom>,
    caf::replies_to<inspect_atom>::with<std::string>>;

// Samples the memory of the node.
using memory_guard_actor =
    caf::typed_actor<caf::reacts_to<tick_atom>, caf::replies_to<inspect_atom>::with<std::string>>;

// Spawns request actors and finds them again for a cancel.
using reception_actor =
    caf::typed_actor<caf::reacts_to<submit_atom, NewRequest>, caf::reacts_to<cancel_atom, RequestId>,
                     caf::reacts_to<complete_atom, RequestId>, caf::reacts_to<drain_atom>,
                     caf::replies_to<inspect_atom>::with<std::string>>;

}  // namespace tandem::actors
