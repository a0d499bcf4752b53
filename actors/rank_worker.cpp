// The life of one rank on its own thread: rendezvous, load, steps, and a clean end after the first failure.
#include "actors/rank_worker.hpp"

#include <fmt/format.h>

#include <exception>

namespace tandem::actors {

void RankControl::attach(gpu::Communicator* communicator) {
  std::lock_guard lock{mutex_};
  communicator_ = communicator;
  if (!abort_reason_.empty()) communicator_->abort(abort_reason_);
}

void RankControl::release() {
  std::lock_guard lock{mutex_};
  communicator_ = nullptr;
}

void RankControl::abort(const std::string& reason) {
  stop = true;
  std::lock_guard lock{mutex_};
  abort_reason_ = reason;
  if (communicator_ != nullptr) communicator_->abort(reason);
}

namespace {

constexpr int exit_peer_lost = 12;
constexpr int exit_load_error = 14;
constexpr int exit_device_error = 15;
constexpr int exit_fabric_error = 16;

int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::unavailable:
    case ErrorCode::timeout:
    case ErrorCode::cancelled:  // its own process is stopping: to the others it is lost
      return exit_peer_lost;
    case ErrorCode::internal:
    case ErrorCode::invalid_argument:
      return 1;
    default:
      return exit_load_error;
  }
}

// Of ranks that cannot exchange on their devices. If it was the group they met in that ended, a peer is lost as
// anywhere else.
int exit_code_of_devices(const Error& error, gpu::Communicator& group) {
  const auto ended = group.failure();
  if (error.code == ErrorCode::cancelled || (ended && ended->message() == error.message())) return exit_code_of(error);
  return error.code == ErrorCode::resource ? exit_device_error : exit_fabric_error;
}

struct RankWorkerState {
  static inline const char* name = "rank-worker";
  RankWorkerOptions options;
  std::unique_ptr<gpu::Communicator> communicator;  // outlives the engine: declared first, destroyed last
  std::unique_ptr<gpu::Engine> engine;
  std::uint64_t steps = 0;
  ~RankWorkerState() {
    if (options.control) options.control->release();
  }
};

using Self = caf::stateful_actor<RankWorkerState>*;

void report(Self self, RankState state) {
  state.rank = self->state.options.rank;
  state.run_id = self->state.options.run_id;
  caf::anon_send(self->state.options.supervisor, rank_state_atom::value, std::move(state),
                 caf::actor_cast<caf::actor>(self));
}

void fail(Self self, const Error& error, int exit_code) {
  RankWorkerState& state = self->state;
  const std::string what = fmt::format("rank {}: {}", state.options.rank, error.message());
  RankState failed;
  failed.state = NodeState::failed;
  failed.detail = what;
  failed.exit_code = exit_code;
  report(self, std::move(failed));  // ahead of what the abort makes the other ranks report: the first cause counts
  if (state.communicator) state.communicator->abort(what);
  self->quit(caf::make_error(caf::sec::runtime_error, what));
}

void fail(Self self, const Error& error) {
  fail(self, error, exit_code_of(error));
}

void load(Self self) {
  RankWorkerState& state = self->state;
  RankState rendezvous;
  rendezvous.state = NodeState::rendezvous;
  report(self, rendezvous);
  auto communicator = state.options.connect();
  if (!communicator) return fail(self, communicator.error());
  state.communicator = std::move(*communicator);
  RankControl& control = *state.options.control;
  control.attach(state.communicator.get());
  if (auto reached = gpu::reach_devices(state.options.engine, state.communicator, &control.stop); !reached)
    return fail(self, reached.error(), exit_code_of_devices(reached.error(), *state.communicator));
  control.attach(state.communicator.get());  // perhaps another one; the first lives on inside it
  const auto progress = [self](double fraction, const std::string& what) {
    RankState loading;
    loading.state = NodeState::loading;
    loading.progress = fraction;
    loading.detail = what;
    report(self, std::move(loading));
  };
  auto engine = gpu::load_engine(state.options.engine, *state.communicator, progress, &control.stop);
  if (!engine) return fail(self, engine.error());
  state.engine = std::move(*engine);
  RankState ready;
  ready.state = NodeState::ready;
  ready.progress = 1;
  ready.info = state.engine->info();
  report(self, std::move(ready));
}

caf::result<RankAnswer> execute(Self self, const gpu::StepPlan& plan) {
  RankWorkerState& state = self->state;
  if (!state.engine) return caf::make_error(caf::sec::runtime_error, "the engine is not loaded");
  auto result = state.engine->step(plan);
  if (result) {
    ++state.steps;
    const std::chrono::nanoseconds ended = self->clock().now().time_since_epoch();
    return RankAnswer{std::move(*result), ended.count()};
  }
  const std::string what = result.error().message();
  fail(self, result.error());
  return caf::make_error(caf::sec::runtime_error, what);
}

// Exceptions (bad_alloc above all) become a failure of this rank, never of the process.
void load_guarded(Self self) {
  try {
    load(self);
  } catch (const std::exception& error) {
    fail(self, {ErrorCode::internal, "engine", error.what(), "no exception"});
  }
}

caf::result<RankAnswer> execute_guarded(Self self, const gpu::StepPlan& plan) {
  try {
    return execute(self, plan);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    fail(self, {ErrorCode::internal, "engine", what, "no exception"});
    return caf::make_error(caf::sec::runtime_error, what);
  }
}

caf::behavior rank_worker(Self self, RankWorkerOptions options) {
  self->state.options = std::move(options);
  return {
      [self](start_atom) { load_guarded(self); },
      [self](execute_atom, const gpu::StepPlan& plan) { return execute_guarded(self, plan); },
      [self](inspect_atom) {
        return fmt::format(R"({{"actor":"rank-worker","rank":{},"steps":{},"loaded":{}}})", self->state.options.rank,
                           self->state.steps, self->state.engine != nullptr);
      },
  };
}

}  // namespace

caf::actor spawn_rank_worker(caf::actor_system& system, RankWorkerOptions options) {
  return system.spawn<caf::detached>(rank_worker, std::move(options));
}

}  // namespace tandem::actors
