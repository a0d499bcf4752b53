// FrontDoor: the one way from a front end into the actors. Every call is a message; nothing here waits for a step.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "actors/generation.hpp"
#include "actors/runtime_snapshot.hpp"

namespace tandem::actors {

class FrontDoor {
 public:
  virtual ~FrontDoor() = default;
  // Starts a request. The sink may hear from it before this returns. Never fails: refusals arrive at the sink.
  virtual RequestId submit(GenerationRequest request, std::shared_ptr<TokenSink> sink) = 0;
  // Ends a request within one step; its sink then hears on_finished(cancelled). Unknown and finished ids are ignored.
  virtual void cancel(RequestId id) = 0;
  // Ends a request whose answer the front end found complete (a stop string, a closed call block): as cancel(), but its
  // sink hears on_finished(stop), and it counts as served.
  virtual void complete(RequestId id) = 0;
  // Returns a copy of what the node last published.
  virtual RuntimeSnapshot snapshot() const = 0;
  // Asks every actor for a one-line JSON report; `done` is called once, from an actor thread, after at most `timeout`.
  virtual void inspect(std::chrono::milliseconds timeout, std::function<void(std::string json)> done) = 0;
};

}  // namespace tandem::actors
