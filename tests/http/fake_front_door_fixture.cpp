// Request ids are index + 1. Sinks are called without the lock, as actors would.
#include "tests/http/fake_front_door_fixture.hpp"

#include <stdexcept>

namespace tandem::net::http::test {

using namespace std::chrono_literals;

FakeFrontDoor::FakeFrontDoor() {
  state.state = actors::NodeState::ready;
  state.engine.model_name = "fake";
  state.engine.vocab_size = 4096;
  state.engine.max_positions = 4096;
  state.run_id = "run";
  state.ranks = {{0, actors::NodeState::ready, 1.0, ""}, {1, actors::NodeState::ready, 1.0, ""}};
}

actors::RequestId FakeFrontDoor::submit(actors::GenerationRequest request, std::shared_ptr<actors::TokenSink> sink) {
  std::size_t index = 0;
  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  if (rejection) {
    sink->on_rejected(*rejection);
  } else if (!script || script->is_accepted) {
    sink->on_accepted(prompt_tokens);
  }
  {
    std::lock_guard lock{mutex_};
    index = requests_.size();
    auto held = std::make_unique<Held>();
    held->request = std::move(request);
    held->sink = sink;
    held->is_finished = rejection || script;
    requests_.push_back(std::move(held));
    changed_.notify_all();
  }
  if (!rejection && script) {
    actors::Finish finish;
    for (const auto& step : script->steps) {
      finish.usage.completion_tokens += static_cast<std::uint32_t>(step.size());
      if (!sink->on_tokens(step)) break;
    }
    finish.reason = script->reason;
    finish.error_code = script->error_code;
    finish.error = script->error;
    finish.usage.prompt_tokens = prompt_tokens;
    finish.usage.cached_tokens = script->cached_tokens;
    sink->on_finished(finish);
  }
  return index + 1;
}

void FakeFrontDoor::complete(actors::RequestId id) {
  if (breaks_on_complete) throw std::runtime_error("the front door broke");
  end(id, actors::FinishReason::stop);
}

void FakeFrontDoor::end(actors::RequestId id, actors::FinishReason reason) {
  std::shared_ptr<actors::TokenSink> sink;
  {
    std::lock_guard lock{mutex_};
    if (id == 0 || id > requests_.size()) return;
    Held& held = *requests_[id - 1];
    if (held.is_finished) return;
    (reason == actors::FinishReason::stop ? held.is_completed : held.is_cancelled) = true;
    held.is_finished = true;
    sink = held.sink;
    changed_.notify_all();
  }
  actors::Finish finish;
  finish.reason = reason;
  sink->on_finished(finish);
}

actors::RuntimeSnapshot FakeFrontDoor::snapshot() const {
  std::lock_guard lock{mutex_};
  return state;
}

FakeFrontDoor::Held& FakeFrontDoor::wait_for(std::unique_lock<std::mutex>& lock, std::size_t index) {
  if (!changed_.wait_for(lock, 60s, [&] { return requests_.size() > index; }))
    throw std::runtime_error("no such request came");
  return *requests_[index];
}

actors::GenerationRequest FakeFrontDoor::request(std::size_t index) {
  std::unique_lock lock{mutex_};
  return wait_for(lock, index).request;
}

bool FakeFrontDoor::emit(std::size_t index, std::vector<gpu::SampledToken> tokens) {
  std::shared_ptr<actors::TokenSink> sink;
  {
    std::unique_lock lock{mutex_};
    Held& held = wait_for(lock, index);
    held.emitted += static_cast<std::uint32_t>(tokens.size());
    sink = held.sink;
  }
  return sink->on_tokens(std::move(tokens));
}

void FakeFrontDoor::finish(std::size_t index, actors::FinishReason reason, std::string error_code, std::string error) {
  std::shared_ptr<actors::TokenSink> sink;
  actors::Finish finish;
  {
    std::unique_lock lock{mutex_};
    Held& held = wait_for(lock, index);
    if (held.is_finished) return;
    held.is_finished = true;
    finish.usage.completion_tokens = held.emitted;
    finish.usage.prompt_tokens = static_cast<std::uint32_t>(held.request.prompt.size());
    sink = held.sink;
  }
  finish.reason = reason;
  finish.error_code = std::move(error_code);
  finish.error = std::move(error);
  sink->on_finished(finish);
}

bool FakeFrontDoor::wait_cancelled(std::size_t index) {
  std::unique_lock lock{mutex_};
  Held& held = wait_for(lock, index);
  return changed_.wait_for(lock, 60s, [&] { return held.is_cancelled; });
}

bool FakeFrontDoor::wait_completed(std::size_t index) {
  std::unique_lock lock{mutex_};
  Held& held = wait_for(lock, index);
  return changed_.wait_for(lock, 60s, [&] { return held.is_completed; });
}

std::size_t FakeFrontDoor::submitted() const {
  std::lock_guard lock{mutex_};
  return requests_.size();
}

}  // namespace tandem::net::http::test
