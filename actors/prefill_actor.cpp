// The queue of prompts being fed, and the actor that answers for it.
#include "actors/prefill_actor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/last_words.hpp"

namespace tandem::actors {

void PrefillQueue::begin(PrefillJob job) {
  jobs_.push_back({std::move(job), 0, 0});
}

void PrefillQueue::drop(RequestId id) {
  std::erase_if(jobs_, [id](const Job& j) { return j.job.id == id; });
}

void PrefillQueue::reset(std::uint32_t rows_per_request_max) {
  jobs_.clear();
  rows_per_request_max_ = rows_per_request_max;
}

std::vector<gpu::PrefillWork> PrefillQueue::plan(std::uint32_t rows_max) {
  std::vector<gpu::PrefillWork> work;
  for (Job& job : jobs_) {
    if (rows_max == 0) break;
    const std::uint32_t rows = std::min(rows_max, rows_per_request_max_);
    work.push_back(next_chunk(job, rows));
    rows_max -= job.in_flight;
  }
  return work;
}

gpu::PrefillWork PrefillQueue::next_chunk(Job& job, std::uint32_t rows) const {
  const auto& tokens = *job.job.tokens;
  const auto left = static_cast<std::uint32_t>(tokens.size()) - job.fed;
  job.in_flight = std::min(left, rows);
  const auto first = tokens.begin() + job.fed;
  gpu::PrefillWork chunk;
  chunk.id = job.job.id;
  chunk.start = job.fed;
  chunk.tokens.assign(first, first + job.in_flight);
  chunk.sample = job.in_flight == left;
  return chunk;
}

void PrefillQueue::commit(const gpu::StepResult& result) {
  for (Job& job : jobs_) {
    job.fed += job.in_flight;
    job.in_flight = 0;
  }
  std::erase_if(jobs_, [&](const Job& job) {
    if (job.fed == job.job.tokens->size()) return true;
    return std::any_of(result.lanes.begin(), result.lanes.end(),
                       [&](const gpu::LaneResult& lane) { return lane.id == job.job.id && !lane.error.empty(); });
  });
}

namespace {

struct PrefillState {
  PrefillQueue queue{1};
  static inline const char* name = "prefill";
  std::string report() const { return fmt::format(R"({{"actor":"prefill","jobs":{}}})", queue.size()); }
};

prefill_actor::behavior_type prefill_behavior(prefill_actor::stateful_pointer<PrefillState> self, std::uint32_t rows) {
  self->state.queue.reset(rows);
  self->set_exception_handler(keep_exception);
  return {
      [self](begin_atom, PrefillJob& job) { self->state.queue.begin(std::move(job)); },
      [self](drop_atom, RequestId id) { self->state.queue.drop(id); },
      [self](commit_atom, const CommitBatch& batch) { self->state.queue.commit(*batch.result); },
      [self](reset_atom, std::uint32_t rows_per_request) { self->state.queue.reset(rows_per_request); },
      [self](plan_rows_atom, std::uint32_t rows_max) { return PrefillPlan{self->state.queue.plan(rows_max)}; },
      [self](inspect_atom) { return self->state.report(); },
  };
}

}  // namespace

prefill_actor spawn_prefill(caf::actor_system& system, std::uint32_t rows_per_request_max) {
  return system.spawn(prefill_behavior, rows_per_request_max);
}

}  // namespace tandem::actors
