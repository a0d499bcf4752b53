// The tensors of a trace: what a probe collects on each rank, and how the ranks' parts become one set.
//
// The types are those of the golden files: values that the numerics round to BF16 are written as BF16, everything that
// stays FP32 in every mode (mixes, router weights, gates, scores, margins, logits) as F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/model/probe.hpp"

namespace tandem::gpu {

struct TraceTensor {
  DType dtype = DType::f32;  // f32, bf16, i32 or u8
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

using TraceTensors = std::map<std::string, TraceTensor>;

// Collects what a probe is shown; shown again, a name's rows are added behind the earlier ones.
class CollectingProbe final : public Probe {
 public:
  struct Options {
    bool rounds = false;          // activations hold bf16 values
    bool own_heads_only = false;  // keep nothing but what a rank has for its own heads
    std::int64_t prompt_positions = 0;
  };
  explicit CollectingProbe(const Options& options) : options_(options) {}

  void record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) override;
  std::int64_t prompt_positions() const override { return options_.prompt_positions; }
  TraceTensors& tensors() noexcept { return tensors_; }

 private:
  Options options_;
  TraceTensors tensors_;
};

// Puts the heads of all ranks side by side, in rank order; everything else is replicated and taken from the first rank.
TraceTensors join_ranks(std::vector<TraceTensors> ranks);

}  // namespace tandem::gpu
