// A front door without actors: it accepts what it is told to and delivers scripted token ids.
//
// Scripted: everything is delivered inside submit(). Held: requests wait until the test emits tokens for them.
#pragma once

#include "actors/front_door.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tandem::net::http::test {

struct Script {
  bool is_accepted = true;  // false: the end comes without a word before it
  std::vector<std::vector<gpu::SampledToken>> steps;
  actors::FinishReason reason = actors::FinishReason::stop;
  std::string error_code, error;
  std::uint32_t cached_tokens = 0;
};

class FakeFrontDoor final : public actors::FrontDoor {
 public:
  FakeFrontDoor();

  actors::RequestId submit(actors::GenerationRequest request, std::shared_ptr<actors::TokenSink> sink) override;
  void cancel(actors::RequestId id) override { end(id, actors::FinishReason::cancelled); }
  void complete(actors::RequestId id) override;
  actors::RuntimeSnapshot snapshot() const override;
  void inspect(std::chrono::milliseconds, std::function<void(std::string)> done) override { done("{}"); }

  // Set before the server starts, or between requests.
  std::optional<Script> script;  // absent: held
  std::optional<actors::Rejection> rejection;
  std::atomic<bool> breaks_on_complete = false;  // complete() throws
  actors::RuntimeSnapshot state;

  // For held requests, by their order of arrival (0, 1, ...). Each waits up to a minute for the request to arrive.
  actors::GenerationRequest request(std::size_t index);
  bool emit(std::size_t index, std::vector<gpu::SampledToken> tokens);  // what the sink answered
  void finish(std::size_t index, actors::FinishReason reason, std::string error_code = "", std::string error = "");
  // Returns whether the request was cancelled within a minute.
  bool wait_cancelled(std::size_t index);
  // Returns whether the front end ended the request as complete within a minute.
  bool wait_completed(std::size_t index);
  std::size_t submitted() const;

 private:
  struct Held {
    actors::GenerationRequest request;
    std::shared_ptr<actors::TokenSink> sink;
    std::uint32_t emitted = 0;
    bool is_cancelled = false;
    bool is_completed = false;
    bool is_finished = false;
  };
  void end(actors::RequestId id, actors::FinishReason reason);
  Held& wait_for(std::unique_lock<std::mutex>& lock, std::size_t index);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Held>> requests_;
};

}  // namespace tandem::net::http::test
