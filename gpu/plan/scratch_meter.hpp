// ScratchMeter: upper bounds of what a backend's operations take besides the tensors they are given, operation by
// operation. Only one operation runs at a time, so the largest one counts.
//
// The formulas follow the buffers of gpu/cpu and gpu/cuda; they are bounds, not the buffers themselves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "gpu/ops.hpp"

namespace tandem::gpu {

class ScratchMeter {
 public:
  ScratchMeter(std::string_view backend, int threads) : is_device_(backend == "cuda"), threads_(threads) {}

  void linear(const Tensor& x, const Linear& weight, LinearMode mode);
  void attention(const AttentionCall& call);
  void index_select(const IndexCall& call);
  void moe(const MoeCall& call);

  bool is_device() const noexcept { return is_device_; }
  // Bytes to plan for.
  std::size_t bytes() const noexcept;

 private:
  void take(std::int64_t floats) noexcept { floats_most_ = std::max(floats_most_, floats); }
  void moe_on_device(const MoeCall& call);
  void moe_on_host(const MoeCall& call);

  bool is_device_;
  int threads_;
  std::int64_t floats_most_ = 0;
};

}  // namespace tandem::gpu
