// The scheduler's state: what it knows and the transitions of a step. Private to the scheduler's two source files.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "actors/drain_rate.hpp"
#include "actors/scheduler_actor.hpp"

namespace tandem::actors {

// A step on its way: its plan, and what the ranks have answered so far.
struct Flight {
  gpu::StepPlan plan;
  StepTimer timer;
  std::vector<gpu::StepResult> results;  // one a rank, in the order of their arrival
  std::size_t awaited = 0;               // ranks that have not answered yet
};

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
  bool is_up = false;  // there are ranks
  bool was_ever_ready = false;
  bool is_draining = false;
  bool is_window_over = false;  // the ranks were down for longer than requests wait
  std::uint64_t epoch = 0;      // rises whenever the ranks come or go: late answers of an older epoch are ignored
  std::uint64_t step = 0;       // of the newest flight

  bool is_planning = false;
  bool is_stale = false;                // a request came or went since the plan in the making was begun
  Flight next;                          // while it is being planned
  std::uint32_t drafts_of_joiners = 0;  // of `next`
  std::deque<Flight> flights;           // sent to the ranks, oldest first: the front one is executed or delivered
  bool is_delivering = false;           // the front flight's tokens were handed out, not all verdicts are back
  std::size_t verdicts_awaited = 0;
  std::set<RequestId> closing;  // ended sequences that the engines still hold
  std::vector<caf::typed_response_promise<drained_atom>> drain_promises;

  // --- requests
  Admission submit(Submit request, request_actor owner);
  std::optional<Rejection> refuse() const;
  void end(RequestId id);
  void lose(RequestId id, const std::string& code, const std::string& message);
  void lose_all(const std::string& code, const std::string& message);

  // --- the life of a step
  void wake();
  // Whether a step can be planned now: with nothing under way, or behind a step whose outcome changes no plan.
  bool may_plan() const noexcept;
  void begin_plan();
  void take_decode(DecodePlan& decode);
  void admit();
  void ask_prefill(std::uint32_t rows_max);
  void begin_decode(const gpu::StepPlan& plan, RequestId id);
  void execute();
  void on_answer(std::uint64_t of_epoch, std::size_t rank, RankAnswer answer);
  // Hands out the front flight's tokens if all ranks have answered and the flight before it is done with.
  void land();
  // `who`: whose answer failed; its failure costs the ranks, whose plan it was.
  void on_step_error(std::uint64_t of_epoch, const std::string& who, const caf::error& error);
  void deliver();
  void deliver_lane(const gpu::LaneResult& lane);
  void forget_flights();
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
