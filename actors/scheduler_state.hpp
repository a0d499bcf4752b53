// The scheduler's state: what it knows and the transitions of a step. Private to the scheduler's two source files.
#pragma once

#include <map>
#include <set>

#include "actors/drain_rate.hpp"
#include "actors/scheduler_actor.hpp"

namespace tandem::actors {

// down -> idle <-> planning -> executing -> delivering -> idle (or planning); any -> down when the ranks are lost.
enum class StepPhase : std::uint8_t { down, idle, planning, executing, delivering };

struct SchedulerState;
using SchedulerSelf = scheduler_actor::stateful_pointer<SchedulerState>;

struct SchedulerState {
  static inline const char* name = "scheduler";
  static constexpr std::uint32_t futile_losses_max = 3;
  static constexpr std::uint64_t drain_deadline = 0;  // no epoch has this number: the first rank group makes it 1

  SchedulerSelf self = nullptr;
  SchedulerOptions options;
  SchedulerPeers peers;
  SequenceBook book;
  DrainRate drain_rate;
  std::map<RequestId, request_actor> owners;

  RankGroup ranks;
  StepPhase phase = StepPhase::down;
  bool was_ever_ready = false;
  bool is_draining = false;
  bool is_window_over = false;  // the ranks were down for longer than requests wait
  bool is_stale = false;        // a request came or went since the current plan was begun
  std::uint64_t epoch = 0;      // rises whenever the ranks come or go: late answers of an older epoch are ignored
  std::uint64_t step = 0;

  gpu::StepPlan plan;                   // being built or executed
  std::uint32_t drafts_of_joiners = 0;  // of `plan`, while it is being built
  std::set<RequestId> closing;          // ended sequences that the engines still hold
  StepTimer timer;                      // of `plan`
  std::vector<gpu::StepResult> results;
  std::size_t awaited = 0;  // rank results or verdicts still to come
  std::vector<caf::typed_response_promise<drained_atom>> drain_promises;

  // --- requests
  Admission submit(Submit request, request_actor owner);
  std::optional<Rejection> refuse() const;
  void end(RequestId id);
  void lose(RequestId id, const std::string& code, const std::string& message);
  void lose_all(const std::string& code, const std::string& message);

  // --- the life of a step
  void wake();
  void begin_plan();
  void admit();
  void ask_prefill(std::uint32_t rows_max);
  void begin_decode(RequestId id);
  void execute();
  void on_answer(std::uint64_t of_epoch, std::size_t rank, RankAnswer answer);
  // `who`: whose answer failed; its failure costs the ranks, whose plan it was.
  void on_step_error(std::uint64_t of_epoch, const std::string& who, const caf::error& error);
  void deliver();
  void deliver_lane(const gpu::LaneResult& lane);
  void on_verdict(std::uint64_t of_epoch, RequestId id, bool is_finished);
  void finish_step();
  void record_step();

  // --- the ranks
  void on_ranks_up(RankGroup group);
  void on_ranks_down(const std::string& reason);
  void count_losses();
  // A timer ran out: the recovery window of `of_epoch`, or the drain's deadline.
  void on_deadline(std::uint64_t of_epoch);

  // --- the end
  caf::result<drained_atom> drain(std::uint32_t deadline_ms);
  void answer_drains();

  scheduler_actor handle() const { return caf::actor_cast<scheduler_actor>(self); }
  void publish();
  std::string report() const;
};

}  // namespace tandem::actors
