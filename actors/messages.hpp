// The protocol of Tandem's actors, on one page. Who sends what:
//
//   front door --(submit)--> node supervisor --spawns--> request actor --(submit)--> scheduler --> Admission
//   front door --(cancel | complete)--> request actor --(ended)--> scheduler
//   scheduler  --(plan_rows)--> decode, prefill; --(execute)--> every rank worker --> RankAnswer
//   scheduler  --(deliver)--> request actors --> Verdict;  --(commit | drop)--> decode, prefill
//   rank worker --(rank_state)--> node supervisor --(ranks_up | ranks_down)--> scheduler
//   anyone     --(inspect)--> any actor --> one-line JSON (the memory guard talks to nobody: it publishes what it
//   samples) worker node --(hello)--> head supervisor --> Assignment (two processes only)
//
// Types marked local are shared by handle inside one node and never leave it; the rest cross nodes and are inspectable.
#pragma once

#include <caf/all.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "actors/generation.hpp"
#include "actors/inspect_plan.hpp"
#include "actors/runtime_snapshot.hpp"

namespace tandem::actors {

inline constexpr std::uint32_t protocol_version = 4;

using TokenIds = std::shared_ptr<const std::vector<gpu::TokenId>>;

// Local. A front end's request on its way to the supervisor, which spawns its actor.
struct NewRequest {
  RequestId id = 0;
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<TokenSink> sink;
};

// Local. A request actor asks the scheduler for a place.
struct Submit {
  RequestId id = 0;
  TokenIds prompt;
  gpu::SamplingParams sampling;
  std::uint32_t max_tokens = 0;  // already clamped to the context
};

// Local. The scheduler's answer to a Submit.
struct Admission {
  bool accepted = false;
  Rejection rejection;
};

// Local. What one step produced for one request.
struct TokenBatch {
  RequestId id = 0;
  std::chrono::steady_clock::time_point admitted{};  // when the sequence left the queue
  std::vector<gpu::SampledToken> tokens;
  std::uint32_t drafted = 0;
  std::uint32_t accepted = 0;
};

// Local. The request actor's answer to a TokenBatch.
struct Verdict {
  RequestId id = 0;
  bool is_finished = false;
};

// Local. A sequence that ended without the request actor asking for it.
struct SequenceLost {
  RequestId id = 0;
  std::string code;
  std::string message;
};

// Local. Prompt ids (and, after a recovery, generated ids) that the prefill actor has to feed.
struct PrefillJob {
  RequestId id = 0;
  TokenIds tokens;
};

struct PrefillPlan {  // local
  std::vector<gpu::PrefillWork> work;
};

struct DecodePlan {  // local
  std::vector<gpu::DecodeWork> work;
  std::uint32_t drafts_of_joiners = 0;  // what a prompt that ends in this step prepares for its first decode step
};

// Local. What a step did to the lanes; one shared copy for the planners.
struct CommitBatch {
  std::shared_ptr<const gpu::StepResult> result;
};

// Local. The ranks are ready for plans; handles in rank order.
struct RankGroup {
  std::vector<caf::actor> workers;
  gpu::EngineInfo info;
  std::string run_id;
};

// A worker process introduces itself to the head.
struct Hello {
  std::uint32_t protocol = 0;
  std::string build_id;
  std::string config_hash;
  std::string settings;  // what the hash is of, KEY=VALUE lines: to name what differs
  std::int32_t rank = 0;
};

// The head's answer: what the worker's rank has to join. Empty `refusal` = welcome.
struct Assignment {
  std::string refusal;
  std::string run_id;
  std::string link_token;  // what the ranks' tensor links show each other; a secret of the group, unlike the run id
  std::int32_t ranks = 0;
  std::string host;
  std::uint16_t port = 0;
};

// What a rank worker tells its supervisor about itself; also crosses nodes. `info` counts once `state` is ready.
struct RankState {
  std::int32_t rank = 0;
  std::string run_id;
  NodeState state = NodeState::init;
  double progress = 0;
  std::string detail;
  std::int32_t exit_code = 0;  // when failed: 12 peer lost, 14 load error, 1 otherwise
  gpu::EngineInfo info;
};

// A rank's answer to a plan. The time is the steady clock of the rank's machine when its step ended; it can be compared
// with other times of that machine only.
struct RankAnswer {
  gpu::StepResult result;
  std::int64_t ended_ns = 0;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Hello& x) {
  return f(caf::meta::type_name("tandem::Hello"), x.protocol, x.build_id, x.config_hash, x.settings, x.rank);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Assignment& x) {
  return f(caf::meta::type_name("tandem::Assignment"), x.refusal, x.run_id, x.link_token, x.ranks, x.host, x.port);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, RankState& x) {
  return f(caf::meta::type_name("tandem::RankState"), x.rank, x.run_id, x.state, x.progress, x.detail, x.exit_code,
           x.info);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, RankAnswer& x) {
  return f(caf::meta::type_name("tandem::RankAnswer"), x.result, x.ended_ns);
}

}  // namespace tandem::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::NewRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::CommitBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Submit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Admission)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::TokenBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Verdict)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::SequenceLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::PrefillJob)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::PrefillPlan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::DecodePlan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::RankGroup)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::MemorySample)

CAF_BEGIN_TYPE_ID_BLOCK(tandem, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(tandem, (tandem::gpu::StepPlan))
CAF_ADD_TYPE_ID(tandem, (tandem::actors::RankAnswer))
CAF_ADD_TYPE_ID(tandem, (tandem::actors::Hello))
CAF_ADD_TYPE_ID(tandem, (tandem::actors::Assignment))
CAF_ADD_TYPE_ID(tandem, (tandem::actors::RankState))
CAF_ADD_ATOM(tandem, tandem::actors, submit_atom, "submit")
CAF_ADD_ATOM(tandem, tandem::actors, cancel_atom, "cancel")
CAF_ADD_ATOM(tandem, tandem::actors, complete_atom, "complete")
CAF_ADD_ATOM(tandem, tandem::actors, deliver_atom, "deliver")
CAF_ADD_ATOM(tandem, tandem::actors, lost_atom, "lost")
CAF_ADD_ATOM(tandem, tandem::actors, ended_atom, "ended")
CAF_ADD_ATOM(tandem, tandem::actors, tick_atom, "tick")
CAF_ADD_ATOM(tandem, tandem::actors, plan_rows_atom, "planrows")
CAF_ADD_ATOM(tandem, tandem::actors, begin_atom, "begin")
CAF_ADD_ATOM(tandem, tandem::actors, commit_atom, "commit")
CAF_ADD_ATOM(tandem, tandem::actors, drop_atom, "drop")
CAF_ADD_ATOM(tandem, tandem::actors, reset_atom, "reset")
CAF_ADD_ATOM(tandem, tandem::actors, execute_atom, "execute")
CAF_ADD_ATOM(tandem, tandem::actors, ranks_up_atom, "ranksup")
CAF_ADD_ATOM(tandem, tandem::actors, ranks_down_atom, "ranksdown")
CAF_ADD_ATOM(tandem, tandem::actors, rank_state_atom, "rankstate")
CAF_ADD_ATOM(tandem, tandem::actors, hello_atom, "hello")
CAF_ADD_ATOM(tandem, tandem::actors, vital_atom, "vital")
CAF_ADD_ATOM(tandem, tandem::actors, start_atom, "start")
CAF_ADD_ATOM(tandem, tandem::actors, drain_atom, "drain")
CAF_ADD_ATOM(tandem, tandem::actors, drained_atom, "drained")
CAF_ADD_ATOM(tandem, tandem::actors, inspect_atom, "inspect")
CAF_END_TYPE_ID_BLOCK(tandem)
