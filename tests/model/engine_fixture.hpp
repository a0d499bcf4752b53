// Drives an Engine with plans as a scheduler would, a sequence at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/engine.hpp"

namespace tandem::gpu::test {

std::filesystem::path golden_checkpoint();   // random weights, vocabulary of 256
std::filesystem::path trained_checkpoint();  // the tiny model that ships with the project

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::uint32_t chunk = 64;
  std::uint32_t drafts = 0;
  std::uint32_t generate = 32;
  std::vector<TokenId> replayed;
  bool tell_prompt_length = true;
  std::uint32_t joins = 0;  // steps of the others before it opens
};

struct Reply {
  std::vector<SampledToken> tokens;
  std::uint32_t drafted = 0;
  std::uint32_t accepted = 0;
  std::uint32_t steps = 0;
  std::vector<TokenId> ids() const;
};

class EngineDriver {
 public:
  explicit EngineDriver(const std::filesystem::path& model, int lanes_max = 4);
  // Uses a communicator of a group; it must outlive the driver.
  EngineDriver(const std::filesystem::path& model, Communicator& communicator);
  explicit EngineDriver(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  // Runs requests together, every one as fast as plans allow, until each has generated what it asked for; it closes
  // with the step after that.
  std::vector<Reply> run(const std::vector<Request>& requests);
  Reply run_one(const Request& request) { return run({request}).front(); }
  Result<StepResult> step(StepPlan plan);

  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Communicator> own_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t step_ = 0;
  SequenceId next_id_ = 1;
};

}  // namespace tandem::gpu::test
