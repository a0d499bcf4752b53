// Values that an operation keeps to itself, formed again for a probe: unsplit mixes, Engram gates, margins of routers.
//
// They are computed on the host in double precision from what the operation reads, so they agree with what it used to
// an FP32 rounding, on every backend. Without a probe nothing happens; what cannot be read is not shown.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/model/step_context.hpp"

namespace tandem::gpu {

// Under `site` the mix [T, (2+C)*C] before it is split: streams fn^T / rms(streams).
void show_mix(const StepContext& step, const char* site, const Tensor& streams, const HyperConnection& weights);

// "engram_gate" [T, C]: sigmoid of the signed root of the match of every stream with its key in kv [T, (C+1)*D]; 0
// where keep is 0. To be called before the streams take the value.
void show_engram_gate(const StepContext& step, const Tensor& streams, const Tensor& kv, const EngramWeights& weights,
                      std::span<const std::uint8_t> keep);

// "router_margin" [T]: gap between the biased scores of the last chosen and the best rejected expert; infinity where
// none is rejected. Rows come in runs that share a bias.
class RouterMargins {
 public:
  RouterMargins(const StepContext& step, const Linear& gate, int chosen) : step_(step), gate_(gate), chosen_(chosen) {}
  // Adds rows that choose by this bias, [experts] in the backend's memory or null.
  void add(const Tensor& input, const float* bias);
  void show() const;

 private:
  const StepContext& step_;
  const Linear& gate_;
  int chosen_;
  std::vector<float> margins_;
};

// The gap between the count-th largest score and the next one; infinity if no finite one is left over. Reorders.
float selection_margin(std::span<float> scores, std::size_t count);

}  // namespace tandem::gpu
