// The life of a step: plan, execute, deliver, commit. See scheduler_actor.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "actors/scheduler_state.hpp"

namespace tandem::actors {

void SchedulerState::wake() {
  if (phase == StepPhase::idle) return begin_plan();
  // Something changed behind the plan being made: should that plan turn out empty, another one is made.
  is_stale = true;
}

void SchedulerState::begin_plan() {
  if (book.running() == 0 && book.waiting() == 0 && closing.empty()) return;
  phase = StepPhase::planning;
  timer.begin(self->clock().now());
  is_stale = false;
  plan = {};
  plan.close.assign(closing.begin(), closing.end());
  closing.clear();
  admit();
  self->request(peers.decode, options.verdict_timeout, plan_rows_atom::value)
      .then(
          [this, of_epoch = epoch](DecodePlan& decode) {
            if (of_epoch != epoch) return;
            plan.decode = std::move(decode.work);
            drafts_of_joiners = decode.drafts_of_joiners;
            std::uint32_t rows = 0;
            for (const auto& lane : plan.decode) rows += 1 + lane.drafts;
            // Most steps only decode: nothing to ask where no prompt is being fed.
            if (!book.is_prefilling()) return execute();
            ask_prefill(options.step_rows_max > rows ? options.step_rows_max - rows : 0);
          },
          [this, of_epoch = epoch](caf::error& error) { on_step_error(of_epoch, "decode", error); });
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
    plan.open.push_back(std::move(open));
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
            plan.prefill = std::move(prefill.work);
            for (gpu::PrefillWork& work : plan.prefill)
              if (work.sample) work.next_drafts = drafts_of_joiners;
            execute();
          },
          [this, of_epoch = epoch](caf::error& error) { on_step_error(of_epoch, "prefill", error); });
}

void SchedulerState::execute() {
  if (plan.close.empty() && plan.open.empty() && plan.prefill.empty() && plan.decode.empty()) {
    phase = StepPhase::idle;  // everything that waits is too large for what is free now
    publish();
    return is_stale ? begin_plan() : void();
  }
  phase = StepPhase::executing;
  plan.step = ++step;
  awaited = ranks.workers.size();
  results.clear();
  publish();
  for (std::size_t rank = 0; rank < ranks.workers.size(); ++rank)
    self->request(ranks.workers[rank], options.step_timeout, execute_atom::value, plan)
        .then([this, of_epoch = epoch, rank](RankAnswer& answer) { on_answer(of_epoch, rank, std::move(answer)); },
              [this, of_epoch = epoch, rank](caf::error& error) {
                on_step_error(of_epoch, fmt::format("rank {}", rank), error);
              });
  timer.sent(self->clock().now());
}

void SchedulerState::on_step_error(std::uint64_t of_epoch, const std::string& who, const caf::error& error) {
  if (of_epoch != epoch) return;
  const std::string reason = who + ": " + self->system().render(error);
  if (peers.supervisor) caf::anon_send(peers.supervisor, ranks_down_atom::value, reason);
  on_ranks_down(reason);
}

void SchedulerState::on_answer(std::uint64_t of_epoch, std::size_t rank, RankAnswer answer) {
  if (of_epoch != epoch) return;
  const std::chrono::duration<double> computed{answer.result.seconds};
  timer.answered(rank, std::chrono::duration_cast<StepTimer::Duration>(computed),
                 StepTimer::Time{std::chrono::nanoseconds{answer.ended_ns}});
  results.push_back(std::move(answer.result));
  if (--awaited > 0) return;
  timer.collected(self->clock().now());
  for (const auto& other : results) {
    // Ranks that ran different plans have different caches: nothing they say can be trusted.
    if (other.plan_hash == results.front().plan_hash && other.step == step) continue;
    return on_step_error(epoch, "the step", caf::make_error(caf::sec::runtime_error, "its plan differs between ranks"));
  }
  deliver();
}

void SchedulerState::deliver() {
  phase = StepPhase::delivering;
  std::size_t rows = 0;
  for (const auto& work : plan.prefill) rows += work.tokens.size();
  for (const auto& work : plan.decode) rows += 1 + work.drafts;
  peers.board->update([&](RuntimeSnapshot& s) {
    ++s.counters.steps;
    s.step_tokens.observe(static_cast<double>(rows));
    for (const auto& work : plan.prefill) s.counters.prompt_tokens += work.tokens.size();
  });
  // Every rank computed the same tokens; the results of any one of them are the step's.
  awaited = 1;  // this function's own ticket: verdicts may arrive only after all were asked
  for (const gpu::LaneResult& lane : results.front().lanes) deliver_lane(lane);
  if (--awaited == 0) finish_step();
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
  ++awaited;
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
  if (of_epoch != epoch || phase != StepPhase::delivering) return;
  if (--awaited == 0) finish_step();
}

void SchedulerState::finish_step() {
  auto result = std::make_shared<const gpu::StepResult>(std::move(results.front()));
  self->send(peers.prefill, commit_atom::value, CommitBatch{result});
  self->send(peers.decode, commit_atom::value, CommitBatch{result});
  for (const gpu::LaneResult& lane : result->lanes) {
    Sequence* sequence = book.find(lane.id);
    if (sequence == nullptr || lane.emitted.empty() || sequence->phase != SequencePhase::prefill) continue;
    sequence->phase = SequencePhase::decode;
    begin_decode(lane.id);
    peers.board->update([took = self->clock().now() - sequence->admitted](RuntimeSnapshot& s) {
      s.prefill_time.observe(std::chrono::duration<double>(took).count());
    });
  }
  phase = StepPhase::idle;
  answer_drains();
  publish();
  record_step();
  wake();
}

void SchedulerState::record_step() {
  const StepTrace trace = timer.finish(self->clock().now());
  peers.board->update([&](RuntimeSnapshot& s) {
    for (std::size_t part = 0; part < step_parts; ++part)
      s.step_seconds[part] += std::chrono::duration<double>(trace.parts[part]).count();
  });
  if (peers.on_step) peers.on_step(trace, plan);
}

void SchedulerState::begin_decode(RequestId id) {
  const auto fed = std::find_if(plan.prefill.begin(), plan.prefill.end(), [id](const auto& w) { return w.id == id; });
  self->send(peers.decode, begin_atom::value, id, fed != plan.prefill.end() ? fed->next_drafts : 0U);
}

}  // namespace tandem::actors
