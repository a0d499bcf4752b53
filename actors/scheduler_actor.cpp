// Requests, ranks and the end of the scheduler; the life of a step is in scheduler_step.cpp. See scheduler_actor.hpp.
#include "actors/scheduler_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/last_words.hpp"
#include "actors/scheduler_state.hpp"

namespace tandem::actors {

std::optional<Rejection> SchedulerState::refuse() const {
  if (is_draining) return Rejection{RejectReason::draining, "the server is stopping", 10};
  if (!was_ever_ready) return Rejection{RejectReason::not_ready, "the model is still loading", 5};
  if (is_window_over) return Rejection{RejectReason::not_ready, "a rank was lost and did not come back in time", 5};
  return std::nullopt;  // lost ranks are being restored: requests wait in the queue
}

Admission SchedulerState::submit(Submit request, request_actor owner) {
  if (auto refusal = refuse()) return {false, *refusal};
  Sequence sequence;
  sequence.id = request.id;
  sequence.prompt = std::move(request.prompt);
  sequence.sampling = std::move(request.sampling);
  sequence.max_tokens = request.max_tokens;
  sequence.submitted = self->clock().now();
  if (auto refusal = book.enqueue(std::move(sequence))) {
    if (refusal->reason == RejectReason::queue_full) refusal->retry_after_s = drain_rate.seconds_for(book.waiting());
    return {false, *refusal};
  }
  owners.emplace(request.id, std::move(owner));
  publish();
  self->send(handle(), tick_atom::value);
  return {true, {}};
}

void SchedulerState::end(RequestId id) {
  owners.erase(id);
  const auto was = book.erase(id);
  if (!was) return;
  if (*was != SequencePhase::waiting) {
    drain_rate.note_end(self->clock().now(), book.waiting());
    closing.insert(id);
    self->send(peers.prefill, drop_atom::value, id);
    self->send(peers.decode, drop_atom::value, id);
  }
  answer_drains();
  publish();
}

void SchedulerState::lose(RequestId id, const std::string& code, const std::string& message) {
  if (auto owner = owners.find(id); owner != owners.end())
    self->send(owner->second, lost_atom::value, SequenceLost{id, code, message});
  end(id);
}

void SchedulerState::lose_all(const std::string& code, const std::string& message) {
  for (const RequestId id : book.ids()) lose(id, code, message);
}

void SchedulerState::on_ranks_up(RankGroup group) {
  ++epoch;
  ranks = std::move(group);
  if (std::exchange(was_ever_ready, true)) peers.board->update([](RuntimeSnapshot& s) { ++s.counters.recoveries; });
  step = 0;
  const gpu::EngineInfo& info = ranks.info;
  book.set_limits({static_cast<std::uint32_t>(info.lanes_max), info.pages_total, info.page_tokens, options.queue_max,
                   options.queue_tokens_max});
  const auto rows =
      std::min<std::uint32_t>(options.prefill_rows_per_request, static_cast<std::uint32_t>(info.chunk_rows_max));
  self->send(peers.prefill, reset_atom::value, rows);
  self->send(peers.decode, reset_atom::value, static_cast<std::uint32_t>(info.drafts_max));
  forget_flights();
  is_window_over = false;
  is_up = true;
  publish();
  wake();
}

void SchedulerState::on_ranks_down(const std::string& reason) {
  if (!is_up) return;
  ++epoch;
  is_up = false;
  ranks.workers.clear();
  forget_flights();
  count_losses();
  book.park_running();
  peers.board->update([](RuntimeSnapshot& s) { ++s.counters.rank_losses; });
  publish();
  if (is_draining) {
    lose_all("draining", "the server stopped while the ranks were down: " + reason);
    return answer_drains();  // the last request may have ended before
  }
  self->delayed_send(handle(), options.recovery_window, lost_atom::value, epoch);
}

void SchedulerState::forget_flights() {
  flights.clear();
  closing.clear();
  is_planning = is_delivering = false;
}

// A request that brings its rank down each time must not hold up all others for ever. Which one it is cannot be told:
// whoever was there each time and got nothing in between is given up.
void SchedulerState::count_losses() {
  for (const RequestId id : book.ids()) {
    Sequence& sequence = *book.find(id);
    if (sequence.phase == SequencePhase::waiting) continue;
    const bool has_moved = sequence.generated.size() > sequence.generated_at_loss;
    sequence.generated_at_loss = sequence.generated.size();
    sequence.futile_losses = has_moved ? 1 : sequence.futile_losses + 1;
    if (sequence.futile_losses >= futile_losses_max)
      lose(id, "internal_error", fmt::format("the ranks were lost {} times over this request", futile_losses_max));
  }
}

void SchedulerState::on_deadline(std::uint64_t of_epoch) {
  if (of_epoch == drain_deadline) {
    ++epoch;  // nobody waits for what the ranks still do
    forget_flights();
    lose_all("draining", "the server is stopping");
    closing.clear();  // a plan that was dropped may have been the one to open them
    return answer_drains();
  }
  if (of_epoch != epoch || is_up) return;
  const std::string reason = "a rank was lost and did not come back in time";
  is_window_over = true;
  lose_all("rank_lost", reason);
  if (peers.supervisor) caf::anon_send(peers.supervisor, lost_atom::value, reason);
}

caf::result<drained_atom> SchedulerState::drain(std::uint32_t deadline_ms) {
  is_draining = true;
  auto promise = self->make_response_promise<drained_atom>();
  drain_promises.push_back(promise);
  if (!is_up) lose_all("draining", "the server is stopping");
  answer_drains();
  // The deadline ends what still runs; its owners hear "draining".
  if (!drain_promises.empty())
    self->delayed_send(handle(), std::chrono::milliseconds(deadline_ms), lost_atom::value, drain_deadline);
  return promise;
}

void SchedulerState::answer_drains() {
  if (!is_draining || book.running() + book.waiting() > 0 || !flights.empty()) return;
  for (auto& promise : drain_promises) promise.deliver(drained_atom::value);
  drain_promises.clear();
}

void SchedulerState::publish() {
  peers.board->update([this](RuntimeSnapshot& s) {
    s.running = static_cast<std::uint32_t>(book.running());
    s.waiting = static_cast<std::uint32_t>(book.waiting());
    s.kv_usage = book.usage();
  });
}

std::string SchedulerState::report() const {
  return fmt::format(
      R"({{"actor":"scheduler","up":{},"step":{},"in_flight":{},"running":{},"waiting":{},"pages_free":{}}})", is_up,
      step, flights.size(), book.running(), book.waiting(), book.pages_free());
}

namespace {

scheduler_actor::behavior_type scheduler_behavior(SchedulerSelf self, SchedulerOptions options, SchedulerPeers peers) {
  SchedulerState& state = self->state;
  state.self = self;
  state.options = options;
  state.peers = std::move(peers);
  self->set_exception_handler(keep_exception);
  return {
      [&state](submit_atom, Submit& request, request_actor& owner) {
        return state.submit(std::move(request), std::move(owner));
      },
      [&state](ended_atom, RequestId id) {
        state.end(id);
        state.wake();
      },
      [&state](tick_atom) { state.wake(); },
      [&state](ranks_up_atom, RankGroup& group) { state.on_ranks_up(std::move(group)); },
      [&state](ranks_down_atom, const std::string& reason) { state.on_ranks_down(reason); },
      [&state](lost_atom, std::uint64_t of_epoch) { state.on_deadline(of_epoch); },
      [&state](drain_atom, std::uint32_t deadline_ms) { return state.drain(deadline_ms); },
      [&state](inspect_atom) { return state.report(); },
  };
}

}  // namespace

scheduler_actor spawn_scheduler(caf::actor_system& system, SchedulerOptions options, SchedulerPeers peers) {
  return system.spawn(scheduler_behavior, options, std::move(peers));
}

}  // namespace tandem::actors
