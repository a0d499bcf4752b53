// The life of a step: plan, execute, deliver, commit. See scheduler_actor.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "actors/scheduler_state.hpp"

namespace tandem::actors {

void SchedulerState::wake() {
  if (!is_up) return;
  // Something changed behind the plan being made: should that plan turn out empty, another one is made.
  if (is_planning)
    is_stale = true;
  else if (may_plan())
    begin_plan();
}

// Running ahead: the engine goes on from tokens that it holds itself, so a step can be sent while the one before it
// runs, and no rank waits for messages. Behind a step that feeds prompts it cannot: who decodes next is known only when
// those have ended.
bool SchedulerState::may_plan() const noexcept {
  if (flights.empty()) return true;
  return options.run_ahead && flights.size() == 1 && !is_delivering && flights.front().plan.prefill.empty();
}

void SchedulerState::begin_plan() {
  if (book.running() == 0 && book.waiting() == 0 && closing.empty()) return;
  is_planning = true;
  is_stale = false;
  next = {};
  next.timer.begin(self->clock().now());
  next.plan.close.assign(closing.begin(), closing.end());
  closing.clear();
  admit();
  self->request(peers.decode, options.verdict_timeout, plan_rows_atom::value)
      .then(
          [this, of_epoch = epoch](DecodePlan& decode) {
            if (of_epoch == epoch) take_decode(decode);
          },
          [this, of_epoch = epoch](caf::error& error) { on_step_error(of_epoch, "decode", error); });
}

void SchedulerState::take_decode(DecodePlan& decode) {
  // Every step brings a lane at least one token: what is under way ends some lanes for certain.
  const std::size_t coming = flights.size() - (is_delivering ? 1 : 0);
  const auto is_over = [this, coming](const gpu::DecodeWork& work) {
    const Sequence* sequence = book.find(work.id);
    return sequence == nullptr || sequence->generated.size() + coming >= sequence->max_tokens;
  };
  auto& work = next.plan.decode;
  work = std::move(decode.work);
  work.erase(std::remove_if(work.begin(), work.end(), is_over), work.end());
  drafts_of_joiners = decode.drafts_of_joiners;
  std::uint32_t rows = 0;
  for (const auto& lane : work) rows += 1 + lane.drafts;
  // Most steps only decode: nothing to ask where no prompt is being fed.
  if (!book.is_prefilling()) return execute();
  ask_prefill(options.step_rows_max > rows ? options.step_rows_max - rows : 0);
}

void SchedulerState::admit() {
  const auto now = self->clock().now();
  for (Sequence* sequence : book.admit(now)) {
    gpu::SequenceOpen open;
    open.id = sequence->id;
    open.sampling = sequence->sampling;
    open.max_tokens_total = static_cast<std::uint32_t>(sequence->prompt->size()) + sequence->max_tokens;
    open.replayed = sequence->generated;
    open.prompt_tokens = static_cast<std::uint32_t>(sequence->prompt->size() + sequence->generated.size());
    next.plan.open.push_back(std::move(open));
    TokenIds tokens = sequence->prompt;
    if (!sequence->generated.empty()) {  // the caches were lost: what was generated becomes prompt
      auto all = std::make_shared<std::vector<gpu::TokenId>>(*sequence->prompt);
      all->insert(all->end(), sequence->generated.begin(), sequence->generated.end());
      tokens = std::move(all);
    }
    self->send(peers.prefill, begin_atom::value, PrefillJob{sequence->id, std::move(tokens)});
    peers.board->update([waited = now - sequence->submitted](RuntimeSnapshot& s) {
      s.queue_time.observe(std::chrono::duration<double>(waited).count());
    });
  }
}

void SchedulerState::ask_prefill(std::uint32_t rows_max) {
  self->request(peers.prefill, options.verdict_timeout, plan_rows_atom::value, rows_max)
      .then(
          [this, of_epoch = epoch](PrefillPlan& prefill) {
            if (of_epoch != epoch) return;
            next.plan.prefill = std::move(prefill.work);
            for (gpu::PrefillWork& work : next.plan.prefill)
              if (work.sample) work.next_drafts = drafts_of_joiners;
            execute();
          },
          [this, of_epoch = epoch](caf::error& error) { on_step_error(of_epoch, "prefill", error); });
}

void SchedulerState::execute() {
  is_planning = false;
  const gpu::StepPlan& planned = next.plan;
  if (planned.close.empty() && planned.open.empty() && planned.prefill.empty() && planned.decode.empty()) {
    publish();  // everything that waits is too large for what is free now, everything that runs is under way
    if (is_stale) wake();
    return;
  }
  flights.push_back(std::move(next));
  Flight& flight = flights.back();
  flight.plan.step = ++step;
  flight.awaited = ranks.workers.size();
  publish();
  const auto timeout = options.step_timeout * static_cast<int>(flights.size());  // it waits for the one before it
  for (std::size_t rank = 0; rank < ranks.workers.size(); ++rank)
    self->request(ranks.workers[rank], timeout, execute_atom::value, flight.plan)
        .then([this, of_epoch = epoch, rank](RankAnswer& answer) { on_answer(of_epoch, rank, std::move(answer)); },
              [this, of_epoch = epoch, rank](caf::error& error) {
                on_step_error(of_epoch, fmt::format("rank {}", rank), error);
              });
  flight.timer.sent(self->clock().now());
  wake();
}

void SchedulerState::on_step_error(std::uint64_t of_epoch, const std::string& who, const caf::error& error) {
  if (of_epoch != epoch) return;
  const std::string reason = who + ": " + self->system().render(error);
  if (peers.supervisor) caf::anon_send(peers.supervisor, ranks_down_atom::value, ranks.run_id, reason);
  on_ranks_down(reason);
}

void SchedulerState::on_answer(std::uint64_t of_epoch, std::size_t rank, RankAnswer answer) {
  if (of_epoch != epoch) return;
  const auto flight = std::find_if(flights.begin(), flights.end(), [&](const Flight& each) {
    return each.plan.step == answer.result.step && each.awaited > 0;
  });
  if (flight == flights.end())
    return on_step_error(epoch, fmt::format("rank {}", rank),
                         caf::make_error(caf::sec::runtime_error, "it answered a step that it was not sent"));
  const std::chrono::duration<double> computed{answer.result.seconds};
  flight->timer.answered(rank, std::chrono::duration_cast<StepTimer::Duration>(computed),
                         StepTimer::Time{std::chrono::nanoseconds{answer.ended_ns}});
  flight->results.push_back(std::move(answer.result));
  if (--flight->awaited > 0) return;
  flight->timer.collected(self->clock().now());
  for (const auto& other : flight->results) {
    // Ranks that ran different plans have different caches: nothing they say can be trusted.
    if (other.plan_hash == flight->results.front().plan_hash) continue;
    return on_step_error(epoch, "the step", caf::make_error(caf::sec::runtime_error, "its plan differs between ranks"));
  }
  land();
}

void SchedulerState::land() {
  if (is_delivering || flights.empty() || flights.front().awaited > 0) return;
  is_delivering = true;
  deliver();
}

void SchedulerState::deliver() {
  const gpu::StepPlan& plan = flights.front().plan;
  std::size_t rows = 0;
  for (const auto& work : plan.prefill) rows += work.tokens.size();
  for (const auto& work : plan.decode) rows += 1 + work.drafts;
  peers.board->update([&](RuntimeSnapshot& s) {
    ++s.counters.steps;
    s.step_tokens.observe(static_cast<double>(rows));
    for (const auto& work : plan.prefill) s.counters.prompt_tokens += work.tokens.size();
  });
  // Every rank computed the same tokens; the results of any one of them are the step's.
  verdicts_awaited = 1;  // this function's own ticket: verdicts may arrive only after all were asked
  for (const gpu::LaneResult& lane : flights.front().results.front().lanes) deliver_lane(lane);
  if (--verdicts_awaited == 0) finish_step();
}

void SchedulerState::deliver_lane(const gpu::LaneResult& lane) {
  Sequence* sequence = book.find(lane.id);
  if (sequence == nullptr) return;  // ended while the step ran
  if (!lane.error.empty()) return lose(lane.id, "internal_error", lane.error);
  if (lane.emitted.empty()) return;
  for (const auto& token : lane.emitted) sequence->generated.push_back(token.id);
  if (lane.drafted > 0)
    peers.board->update([&](RuntimeSnapshot& s) {
      ++s.counters.drafts;
      s.counters.draft_tokens += lane.drafted;
      s.counters.accepted_tokens += lane.accepted;
      for (std::uint32_t i = 0; i < lane.accepted && i < s.counters.accepted_per_position.size(); ++i)
        ++s.counters.accepted_per_position[i];
    });
  ++verdicts_awaited;
  self->request(owners.at(lane.id), options.verdict_timeout, deliver_atom::value,
                TokenBatch{lane.id, sequence->admitted, lane.emitted, lane.drafted, lane.accepted})
      .then([this, of_epoch = epoch](const Verdict& verdict) { on_verdict(of_epoch, verdict.id, verdict.is_finished); },
            // An owner that does not answer may only be late: it must hear that its sequence is over.
            [this, of_epoch = epoch, id = lane.id](caf::error&) {
              lose(id, "internal_error", "the request did not take its tokens in time");
              on_verdict(of_epoch, id, true);
            });
}

void SchedulerState::on_verdict(std::uint64_t of_epoch, RequestId id, bool is_finished) {
  if (is_finished) end(id);
  if (of_epoch != epoch || !is_delivering) return;
  if (--verdicts_awaited == 0) finish_step();
}

void SchedulerState::finish_step() {
  Flight& flight = flights.front();
  auto result = std::make_shared<const gpu::StepResult>(std::move(flight.results.front()));
  self->send(peers.prefill, commit_atom::value, CommitBatch{result});
  self->send(peers.decode, commit_atom::value, CommitBatch{result});
  for (const gpu::LaneResult& lane : result->lanes) {
    Sequence* sequence = book.find(lane.id);
    if (sequence == nullptr || lane.emitted.empty() || sequence->phase != SequencePhase::prefill) continue;
    sequence->phase = SequencePhase::decode;
    begin_decode(flight.plan, lane.id);
    peers.board->update([took = self->clock().now() - sequence->admitted](RuntimeSnapshot& s) {
      s.prefill_time.observe(std::chrono::duration<double>(took).count());
    });
  }
  record_step();
  flights.pop_front();
  is_delivering = false;
  answer_drains();
  publish();
  wake();  // first the ranks' next work, then the tokens of the step that they may have finished meanwhile
  land();
}

void SchedulerState::record_step() {
  Flight& flight = flights.front();
  StepTimer* const follower = flights.size() > 1 ? &flights[1].timer : is_planning ? &next.timer : nullptr;
  const StepTrace trace = flight.timer.finish(self->clock().now(), follower);
  peers.board->update([&](RuntimeSnapshot& s) {
    for (std::size_t part = 0; part < step_parts; ++part)
      s.step_seconds[part] += std::chrono::duration<double>(trace.parts[part]).count();
    for (const gpu::StepResult& result : flight.results) {  // rank 0's lanes are with the actors, its counts still here
      s.counters.engram.rows += result.engram.rows;
      s.counters.engram.cache_hits += result.engram.cache_hits;
      s.counters.engram.waited_seconds += result.engram.waited_seconds;
    }
  });
  if (peers.on_step) peers.on_step(trace, flight.plan);
}

void SchedulerState::begin_decode(const gpu::StepPlan& plan, RequestId id) {
  const auto fed = std::find_if(plan.prefill.begin(), plan.prefill.end(), [id](const auto& w) { return w.id == id; });
  self->send(peers.decode, begin_atom::value, id, fed != plan.prefill.end() ? fed->next_drafts : 0U);
}

}  // namespace tandem::actors
