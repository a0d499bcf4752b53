// A simulated node: one thread, a virtual clock, ranks that invent tokens. What the scheduler and its neighbours do
// here is what they do in production, message for message, without a model, a sleep or a second thread.
#pragma once

#include <boost/test/unit_test.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <map>
#include <set>

#include "actors/decode_actor.hpp"
#include "actors/prefill_actor.hpp"
#include "actors/reception.hpp"
#include "actors/request_actor.hpp"
#include "actors/scheduler_actor.hpp"

namespace tandem::actors::simulation {

// What one sink heard, in order.
struct Record : TokenSink {
  bool is_listening = true;
  std::uint32_t accepted = 0, rejected = 0, finished = 0;
  Rejection rejection;
  Finish finish;
  std::vector<gpu::TokenId> tokens;
  void on_accepted(std::uint32_t) override { ++accepted; }
  void on_rejected(const Rejection& r) override {
    ++rejected;
    rejection = r;
  }
  bool on_tokens(std::vector<gpu::SampledToken> batch) override {
    BOOST_TEST(finished == 0U);  // nothing follows the end
    for (const auto& token : batch) tokens.push_back(token.id);
    return is_listening;
  }
  void on_finished(const Finish& f) override {
    ++finished;
    finish = f;
  }
  std::uint32_t ends() const { return rejected + finished; }
};

// The token that the simulated model generates after `length` fed positions of a prompt that began with `first`.
inline gpu::TokenId next_token(gpu::TokenId first, std::size_t length) {
  return static_cast<gpu::TokenId>(100 + (static_cast<std::size_t>(first) * 7 + length * 13) % 800);
}

// One simulated rank: keeps a length per sequence, checks the engine's contract, answers each plan at once (or fails,
// or stays silent).
struct FakeRank {
  static inline const char* name = "fake-rank";
  struct Lane {
    gpu::TokenId first = 0;
    std::size_t length = 0;
    std::uint32_t prepared = 0;
  };
  std::map<gpu::SequenceId, Lane> lanes;
};

struct RankScript {
  int fail_at_step = -1;     // answers that step with an error
  int silent_at_step = -1;   // never answers that step
  std::uint32_t accept = 1;  // drafts accepted of those verified
  double takes = 0;          // seconds that every step claims to have computed
  std::size_t rows_seen_max = 0;
  std::size_t lanes_seen_max = 0;
  std::vector<gpu::StepPlan> plans;
};

inline gpu::LaneResult feed(FakeRank& rank, const gpu::PrefillWork& work) {
  auto& lane = rank.lanes.at(work.id);
  BOOST_TEST(lane.length == work.start);
  if (work.start == 0) lane.first = work.tokens.front();
  lane.length += work.tokens.size();
  gpu::LaneResult result;
  result.id = work.id;
  result.length = static_cast<std::uint32_t>(lane.length);
  if (work.sample) lane.prepared = work.next_drafts;
  if (work.sample) result.emitted.push_back({next_token(lane.first, lane.length), 0, {}});
  return result;
}

inline gpu::LaneResult go_on(FakeRank& rank, const gpu::DecodeWork& work, std::uint32_t accept) {
  auto& lane = rank.lanes.at(work.id);
  BOOST_TEST(work.drafts == lane.prepared);
  lane.prepared = work.next_drafts;
  gpu::LaneResult result;
  result.id = work.id;
  result.drafted = work.drafts;
  result.accepted = std::min(accept, work.drafts);
  for (std::uint32_t i = 0; i <= result.accepted; ++i) {
    ++lane.length;
    result.emitted.push_back({next_token(lane.first, lane.length), 0, {}});
  }
  result.length = static_cast<std::uint32_t>(lane.length);
  return result;
}

inline caf::behavior fake_rank(caf::stateful_actor<FakeRank>* self, RankScript* script) {
  return {[self, script](execute_atom, const gpu::StepPlan& plan) -> caf::result<RankAnswer> {
    script->plans.push_back(plan);
    if (static_cast<int>(plan.step) == script->fail_at_step)
      return caf::make_error(caf::sec::runtime_error, "simulated");
    if (static_cast<int>(plan.step) == script->silent_at_step) return self->make_response_promise<RankAnswer>();
    for (const auto id : plan.close) BOOST_TEST(self->state.lanes.erase(id) == 1U);
    for (const auto& open : plan.open) BOOST_TEST(self->state.lanes.emplace(open.id, FakeRank::Lane{}).second);
    gpu::StepResult result;
    result.step = plan.step;
    result.seconds = script->takes;
    std::size_t rows = 0;
    for (const auto& work : plan.prefill) rows += work.tokens.size();
    for (const auto& work : plan.decode) rows += 1 + work.drafts;
    for (const auto& work : plan.prefill) result.lanes.push_back(feed(self->state, work));
    for (const auto& work : plan.decode) result.lanes.push_back(go_on(self->state, work, script->accept));
    script->rows_seen_max = std::max(script->rows_seen_max, rows);
    script->lanes_seen_max = std::max(script->lanes_seen_max, self->state.lanes.size());
    const std::chrono::nanoseconds ended = self->clock().now().time_since_epoch();
    return RankAnswer{std::move(result), ended.count()};
  }};
}

struct DeterministicConfig : caf::actor_system_config {
  DeterministicConfig() {
    add_message_types<caf::id_block::tandem>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

struct Node {
  SnapshotBoard board;
  DeterministicConfig config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& coordinator = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  SchedulerOptions options;
  SpeculationPolicy speculation;
  StepObserver on_step;
  RankScript scripts[2];
  gpu::EngineInfo info;
  prefill_actor prefill;
  decode_actor decode;
  scheduler_actor scheduler;
  reception_actor reception;
  std::vector<caf::actor> ranks;
  RequestId last_id = 0;

  Node() {
    info.vocab_size = 1000;
    info.max_positions = 256;
    info.page_tokens = 16;
    info.pages_total = 64;
    info.lanes_max = 4;
    info.chunk_rows_max = 32;
    info.drafts_max = 3;
    options.step_rows_max = 24;
    options.prefill_rows_per_request = 16;
  }
  ~Node() {
    for (auto* actor : {&ranks})
      for (auto& rank : *actor) caf::anon_send_exit(rank, caf::exit_reason::kill);
    if (reception) caf::anon_send_exit(reception, caf::exit_reason::kill);
    if (scheduler) caf::anon_send_exit(scheduler, caf::exit_reason::kill);
    if (prefill) caf::anon_send_exit(prefill, caf::exit_reason::kill);
    if (decode) caf::anon_send_exit(decode, caf::exit_reason::kill);
    coordinator.run();
  }

  void start() {
    prefill = spawn_prefill(system, options.prefill_rows_per_request);
    decode = spawn_decode(system, speculation);
    scheduler = spawn_scheduler(system, options, {prefill, decode, caf::actor{}, &board, on_step});
    reception = spawn_reception(system, scheduler, &board);
    coordinator.run();
  }
  // Brings a fresh pair of ranks up (empty caches).
  void ranks_up() {
    for (auto& rank : ranks) caf::anon_send_exit(rank, caf::exit_reason::kill);
    ranks = {system.spawn(fake_rank, &scripts[0]), system.spawn(fake_rank, &scripts[1])};
    board.update([this](RuntimeSnapshot& s) { s.engine = info; });
    caf::anon_send(scheduler, ranks_up_atom::value, RankGroup{ranks, info, "run"});
  }
  void run() { coordinator.run(); }
  void advance(std::chrono::milliseconds by) {
    coordinator.clock().advance_time(by);
    coordinator.run();
  }
  RequestId submit(GenerationRequest request, std::shared_ptr<Record> record) {
    const RequestId id = ++last_id;
    caf::anon_send(reception, submit_atom::value,
                   NewRequest{id, std::make_shared<const GenerationRequest>(std::move(request)), std::move(record)});
    return id;
  }
  std::pair<RequestId, std::shared_ptr<Record>> submit(GenerationRequest request) {
    auto record = std::make_shared<Record>();
    const RequestId id = submit(std::move(request), record);
    return {id, record};
  }
  std::pair<RequestId, std::shared_ptr<Record>> submit(std::size_t prompt, std::uint32_t max_tokens,
                                                       gpu::TokenId first = 5) {
    GenerationRequest request;
    request.prompt.assign(prompt, first);
    request.max_tokens = max_tokens;
    return submit(std::move(request));
  }
};

// Returns what the simulated model says after a prompt of `prompt` tokens that began with `first`.
inline std::vector<gpu::TokenId> expected_tokens(std::size_t prompt, std::size_t count, gpu::TokenId first = 5) {
  std::vector<gpu::TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(next_token(first, prompt + i));
  return tokens;
}

}  // namespace tandem::actors::simulation
