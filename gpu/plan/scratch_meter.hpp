// ScratchMeter: upper bounds of what a backend's operations take besides the tensors they are given, operation by
// operation. Only one operation runs at a time on a side of the backend's stream, so the largest one of each side
// counts.
//
// The formulas follow the buffers of gpu/cpu and gpu/cuda; they are bounds, not the buffers themselves. What the
// device's experts take, which is most, is the device's own formula (gpu/cuda/expert_scratch.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "gpu/ops.hpp"

namespace tandem::gpu {

class ScratchMeter {
 public:
  ScratchMeter(std::string_view backend, int threads) : is_device_(backend == "cuda"), threads_(threads) {}

  void linear(const Tensor& x, const Linear& weight, LinearMode mode);
  // In one launch, if they are EXL3: rotated inputs of all of them exist at once.
  void linears(std::span<const LinearCall> calls);
  void attention(const AttentionCall& call);
  void index_select(const IndexCall& call);
  void moe(const MoeCall& call);

  // What `body` tells is done beside the stream.
  void beside(Ops::Side side, const std::function<void()>& body);

  bool is_device() const noexcept { return is_device_; }
  // Bytes to plan for.
  std::size_t bytes() const noexcept;

 private:
  // The device's scratch is a Workspace: when it grows it may come to twice what one operation needed.
  void take(std::int64_t floats) noexcept {
    take_with_growth(static_cast<std::size_t>((is_device_ ? 2 : 1) * floats) * sizeof(float));
  }
  void take_with_growth(std::size_t bytes) noexcept { bytes_most_[here_] = std::max(bytes_most_[here_], bytes); }
  std::int64_t floats_of(const Tensor& x, const Linear& weight, LinearMode mode) const;
  void moe_on_device(const MoeCall& call);
  void moe_on_host(const MoeCall& call);

  bool is_device_;
  int threads_;
  std::size_t here_ = 0;
  std::array<std::size_t, 3> bytes_most_{};  // of the stream and of its two sides
};

}  // namespace tandem::gpu
