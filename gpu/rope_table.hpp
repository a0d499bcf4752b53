// RopeTable: cos and sin of every position and pair in FP32, built once on the host in exactly the reference's
// roundings.
//
//   p_k = fp32(theta^(2k/R) in double), g_k = 1/p_k in FP32; with YaRN f_k = (g_k/factor)*ramp_k + g_k*(1-ramp_k), else
//   f_k = g_k; angle = fp32(position * f_k). One ulp in f_k is up to 0.06 rad at a million positions: never rebuild
//   this with other roundings.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "gpu/config.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

enum class RopeKind {
  plain,       // layers without compression and the draft network: rope.theta
  compressed,  // layers with ratio > 0: rope.compress_theta with YaRN
};

// Returns f_k for k = 0 .. rope_dim/2 - 1, radians a position.
std::vector<float> rope_frequencies(const RopeConfig& config, int rope_dim, RopeKind kind);

class RopeTable {
 public:
  // Holds positions [0, positions): 8 bytes a position and pair. A table that was filled while `stop` (may be null)
  // became true is incomplete and must not be used.
  RopeTable(const RopeConfig& config, int rope_dim, RopeKind kind, std::int64_t positions,
            const std::atomic<bool>* stop = nullptr);

  // Moves the angles to where the operations of `memory` read them; views taken before are invalid.
  void place(Memory& memory) {
    memory.place(cos_);
    memory.place(sin_);
  }
  // Valid as long as this table.
  RopeView view() const noexcept { return {cos_.as<float>(), sin_.as<float>(), pairs_, positions_}; }

 private:
  int pairs_;
  std::int64_t positions_;
  Buffer cos_, sin_;  // f32 [positions, pairs]
};

}  // namespace tandem::gpu
