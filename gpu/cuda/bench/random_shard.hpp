// RandomShard: one rank of a pair with random weights on a device, and one sequence whose caches are full.
//
// The weights are those of rank 0 of two (gpu/model/random_model.hpp); the sum over ranks is this rank's own part, so a
// step has every kernel of a real one and no exchange. Cached entries and index keys are random: scores differ as they
// do in service.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "gpu/comm/communicator.hpp"
#include "gpu/engine_pass.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/model/model.hpp"
#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu::cuda::bench {

struct ShardOptions {
  std::filesystem::path config;     // a config.json
  std::int64_t positions_most = 0;  // of the sequence
  std::int32_t rows_most = 0;       // of one step
};

// Which tokens the rows of a step hold: each its own, all the same, or two thirds as many as there are rows, with which
// six rows of DeepSeek-V4.1-Flash choose some 23 of 384 experts.
enum class Tokens { random, one, some };

class RandomShard {
 public:
  // Errors: those of the configuration, the backend and its memory.
  static Result<std::unique_ptr<RandomShard>> make(const ShardOptions& options);

  const Model& model() const noexcept { return *model_; }
  std::size_t cache_bytes() const noexcept { return pools_->layout().total_bytes(); }
  std::int64_t length() const noexcept { return sequence_->length(); }

  // Makes the sequence `length` positions long, or keeps it if it is longer.
  Result<void> extend(std::int64_t length, Tokens tokens);
  // Appends `rows` tokens and takes all of them through the model, with logits of the last `logits` rows. Returns
  // without waiting for the device.
  Result<void> step(std::int32_t rows, std::int32_t logits, Tokens tokens, const ForwardOptions& options, bool as_one);
  // Prepares a step of so many rows with logits of all (EnginePass::prepare), while the device works on the last one.
  void prepare(std::int32_t rows);

 private:
  RandomShard() = default;
  Result<void> fill_caches(std::int64_t positions);
  Result<void> append(std::int64_t rows, Tokens tokens);

  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<ForwardPass> forward_;
  std::unique_ptr<EnginePass> pass_;
  std::unique_ptr<SequenceState> sequence_;
  std::uint64_t drawn_ = 0;  // tokens
};

}  // namespace tandem::gpu::cuda::bench
