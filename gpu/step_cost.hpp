// What one token costs at least: multiply-adds and weight bytes of the backbone, counted from the configuration. The
// numerator of every "share of the machine's limit" that a benchmark prints. Attention over the cache and the draft
// network are not counted: the shares are therefore on the low side.
#pragma once

#include "gpu/config.hpp"

namespace tandem::gpu {

struct StepCost {
  double flops = 0;  // 2 x weights touched by one token
  double weight_bytes =
      0;  // bytes read to compute one single row: every touched weight once, in the official storage formats
};

StepCost cost_of_token(const ModelConfig& config);

}  // namespace tandem::gpu
