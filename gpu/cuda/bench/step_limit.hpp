// StepLimit: what a step of one rank must move, and the least time that this card needs for it.
//
// Counted from the weights as they lie in memory: every matrix that a step touches once, the experts that its rows
// chose once each, of the caches what its rows read. The time of a block is the sum over its matrices of the nearest of
// three limits: bytes at the copy rate, EXL3 words at the decode ceiling, operations at the rate of the matrix
// instruction, those of attention and of the indexer with their keys too.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "gpu/cuda/bench/card_limits.hpp"
#include "gpu/cuda/bench/random_shard.hpp"
#include "gpu/model/probe.hpp"

namespace tandem::gpu::cuda::bench {

struct BlockLimit {
  const char* name = "";
  double bytes = 0;
  double seconds = 0;
};

enum StepBlock { attention_block, residual_block, router_block, experts_block, shared_block, head_block, cache_block };
inline constexpr int step_blocks = 7;

struct StepLimit {
  std::array<BlockLimit, step_blocks> blocks;
  double bytes() const noexcept;
  double seconds() const noexcept;
};

// Which experts the rows of one step chose, layer by layer.
class ExpertCounter final : public Probe {
 public:
  void record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) override;
  const std::vector<int>& distinct() const noexcept { return distinct_; }
  double mean() const noexcept;

 private:
  std::vector<int> distinct_;
};

// `rows` rows of one sequence that then is `length` positions long; `head_rows` of them get logits. Layer i touches
// `distinct[i]` experts; layers past them are not passed.
struct StepShape {
  std::int32_t rows = 1;
  std::int64_t length = 0;
  std::int32_t head_rows = 0;
  std::vector<int> distinct;
};

// Index keys that a row scores which sees `positions` positions: of an index source all, or those in candidate blocks.
double index_keys_of_row(const ModelConfig& config, const LayerRole& role, double positions);

StepLimit limit_of_step(const Model& model, const CardLimits& card, const StepShape& shape);

}  // namespace tandem::gpu::cuda::bench
