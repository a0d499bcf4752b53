// Checks, limits, delivery and the one end of a request.
#include "actors/request_actor.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

#include "actors/last_words.hpp"

namespace tandem::actors {

std::optional<Rejection> check_request(const GenerationRequest& request, const gpu::EngineInfo& info) {
  if (request.prompt.empty()) return Rejection{RejectReason::invalid, "the prompt is empty", 0};
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (length + 1 > info.max_positions)
    return Rejection{
        RejectReason::prompt_too_long,
        fmt::format("This model's maximum context length is {} tokens. However, your messages resulted in {} tokens.",
                    info.max_positions, length),
        0};
  for (const gpu::TokenId id : request.prompt)
    if (id < 0 || id >= info.vocab_size)
      return Rejection{RejectReason::invalid,
                       fmt::format("token id {} is outside the vocabulary of {}", id, info.vocab_size), 0};
  return std::nullopt;
}

std::uint32_t clamp_max_tokens(const GenerationRequest& request, const gpu::EngineInfo& info) {
  const auto room = static_cast<std::uint32_t>(info.max_positions - static_cast<std::int64_t>(request.prompt.size()));
  return request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
}

namespace {

using Clock = std::chrono::steady_clock;
// The scheduler answers from its book at once; only a dead or hopelessly late one takes longer.
constexpr auto admission_timeout = std::chrono::seconds(30);

struct RequestState {
  static inline const char* name = "request";
  // Not a handle first: CAF would build the state from the actor's own pointer, since an aggregate accepts (this).
  SnapshotBoard* board = nullptr;
  scheduler_actor scheduler;
  NewRequest request;
  std::uint32_t max_tokens = 0;
  Usage usage;
  bool is_over = false;
  Clock::time_point submitted{}, admitted{}, first_token{}, last_token{};

  // However the actor ends, its sink hears of it: a client waits there.
  ~RequestState() { lose(); }
  void lose();
  bool is_stop(gpu::TokenId id) const {
    const auto& stops = request.request->stop_ids;
    return std::find(stops.begin(), stops.end(), id) != stops.end();
  }
  std::string report() const {
    return fmt::format(R"({{"actor":"request","id":{},"prompt_tokens":{},"completion_tokens":{}}})", request.id,
                       usage.prompt_tokens, usage.completion_tokens);
  }
};

using Self = request_actor::stateful_pointer<RequestState>;

void count_finish(Counters& counters, FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      ++counters.finished_stop;
      break;
    case FinishReason::length:
      ++counters.finished_length;
      break;
    case FinishReason::cancelled:
      ++counters.aborted;
      break;
    case FinishReason::error:
      ++counters.finished_error;
      break;
  }
}

// Publishes the request's part of the metrics; seconds since `from`.
void publish_finish(RequestState& state, FinishReason reason, Clock::time_point now) {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  state.board->update([&](RuntimeSnapshot& s) {
    count_finish(s.counters, reason);
    if (reason != FinishReason::stop && reason != FinishReason::length) return;
    s.request_latency.observe(seconds(now - state.submitted));
    s.decode_time.observe(seconds(state.last_token - state.first_token));
    s.inference_time.observe(seconds(state.last_token - state.admitted));
    s.prompt_length.observe(state.usage.prompt_tokens);
    s.generation_length.observe(state.usage.completion_tokens);
  });
}

void RequestState::lose() {
  if (is_over || !request.sink) return;
  is_over = true;
  // It may be memory that the actor died of; the others go on all the same.
  try {
    caf::anon_send(scheduler, ended_atom::value, request.id);
    publish_finish(*this, FinishReason::error, {});
    request.sink->on_finished({FinishReason::error, usage, "internal_error", "the request's actor ended"});
  } catch (const std::exception& error) {
    spdlog::error("request {} could not be ended: {}", request.id, error.what());
  }
}

// A monitor left behind would keep this actor's memory alive for as long as the scheduler lives.
void leave(Self self) {
  self->demonitor(self->state.scheduler.address());
}

void finish(Self self, FinishReason reason, std::string code = {}, std::string message = {}) {
  RequestState& state = self->state;
  if (state.is_over) return;
  state.is_over = true;
  publish_finish(state, reason, self->clock().now());
  leave(self);
  state.request.sink->on_finished({reason, state.usage, std::move(code), std::move(message)});
  self->quit();
}

void reject(Self self, const Rejection& rejection) {
  if (self->state.is_over) return;
  self->state.is_over = true;
  self->state.board->update([](RuntimeSnapshot& s) { ++s.counters.rejected; });
  self->state.request.sink->on_rejected(rejection);
  leave(self);
  self->quit();
}

Rejection unready(NodeState state) {
  if (state == NodeState::draining || state == NodeState::stopped)
    return {RejectReason::draining, "the server is stopping", 10};
  return {RejectReason::not_ready, "the model is still loading", 5};
}

void submit(Self self) {
  RequestState& state = self->state;
  const RuntimeSnapshot snapshot = state.board->read();
  const gpu::EngineInfo& info = snapshot.engine;
  const GenerationRequest& request = *state.request.request;
  // Before the first READY the limits are unknown. Nothing may be submitted on a guess: the ranks may come up between
  // here and the scheduler's look at it.
  if (info.max_positions == 0) return reject(self, unready(snapshot.state));
  if (auto refusal = check_request(request, info)) return reject(self, *refusal);
  state.max_tokens = clamp_max_tokens(request, info);
  state.usage.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  state.submitted = self->clock().now();
  Submit submit{state.request.id, TokenIds(state.request.request, &request.prompt), request.sampling, state.max_tokens};
  self->request(state.scheduler, admission_timeout, submit_atom::value, std::move(submit),
                caf::actor_cast<request_actor>(self))
      .then(
          [self](const Admission& admission) {
            if (!admission.accepted) return reject(self, admission.rejection);
            self->state.request.sink->on_accepted(self->state.usage.prompt_tokens);
          },
          [self](caf::error& error) {
            // It may have taken the request all the same.
            self->send(self->state.scheduler, ended_atom::value, self->state.request.id);
            reject(self,
                   {RejectReason::not_ready, "the scheduler does not answer: " + self->system().render(error), 5});
          });
}

void record_latency(RequestState& state, Clock::time_point now) {
  const bool is_first = state.usage.completion_tokens == 0;
  const double since = std::chrono::duration<double>(now - (is_first ? state.submitted : state.last_token)).count();
  if (is_first) state.first_token = now;
  state.last_token = now;
  state.board->update(
      [&](RuntimeSnapshot& s) { (is_first ? s.time_to_first_token : s.inter_token_latency).observe(since); });
}

// Cuts the batch at the first stop id and at max_tokens; returns how the request ended, if it did.
std::optional<FinishReason> trim(RequestState& state, std::vector<gpu::SampledToken>& tokens) {
  const std::uint32_t room = state.max_tokens - state.usage.completion_tokens;
  if (tokens.size() > room) tokens.resize(room);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!state.is_stop(tokens[i].id)) continue;
    tokens.resize(i + 1);
    return FinishReason::stop;
  }
  if (tokens.size() == room) return FinishReason::length;
  return std::nullopt;
}

Verdict deliver(Self self, TokenBatch& batch) {
  RequestState& state = self->state;
  if (state.is_over) return {batch.id, true};
  if (state.usage.completion_tokens == 0) state.admitted = batch.admitted;
  record_latency(state, self->clock().now());
  const auto end = trim(state, batch.tokens);
  state.usage.completion_tokens += static_cast<std::uint32_t>(batch.tokens.size());
  state.usage.steps += 1;
  state.usage.drafted += batch.drafted;
  state.usage.accepted += batch.accepted;
  const auto count = batch.tokens.size();
  state.board->update([count](RuntimeSnapshot& s) { s.counters.generation_tokens += count; });
  const bool is_heard = state.request.sink->on_tokens(std::move(batch.tokens));
  if (!is_heard)
    finish(self, FinishReason::cancelled);
  else if (end)
    finish(self, *end);
  return {batch.id, state.is_over};
}

// The front end wants no more of it.
void end_early(Self self, FinishReason reason) {
  if (self->state.is_over) return;
  self->send(self->state.scheduler, ended_atom::value, self->state.request.id);
  finish(self, reason);
}

request_actor::behavior_type request_behavior(Self self, scheduler_actor scheduler, NewRequest request,
                                              SnapshotBoard* board) {
  self->state.scheduler = std::move(scheduler);
  self->state.request = std::move(request);
  self->state.board = board;
  // A scheduler that dies takes its requests with it: say so instead of leaving the client waiting.
  self->monitor(self->state.scheduler);
  self->set_down_handler(
      [self](const caf::down_msg&) { finish(self, FinishReason::error, "internal_error", "the scheduler ended"); });
  self->set_exception_handler(keep_exception);
  submit(self);
  return {
      [self](deliver_atom, TokenBatch& batch) { return deliver(self, batch); },
      [self](lost_atom, SequenceLost& lost) {
        finish(self, FinishReason::error, std::move(lost.code), std::move(lost.message));
      },
      [self](cancel_atom) { end_early(self, FinishReason::cancelled); },
      [self](complete_atom) { end_early(self, FinishReason::stop); },
      [self](inspect_atom) { return self->state.report(); },
  };
}

}  // namespace

request_actor spawn_request(caf::local_actor* parent, scheduler_actor scheduler, NewRequest request,
                            SnapshotBoard* board) {
  return parent->system().spawn(request_behavior, std::move(scheduler), std::move(request), board);
}

}  // namespace tandem::actors
