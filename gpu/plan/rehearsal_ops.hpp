// A backend that computes nothing: Ops whose tensors lie in addresses without memory, so that the real forward pass can
// be run to learn what it would ask for.
//
// Invariant: nobody reads or writes an address of ReservedAddresses; the forward pass never does so itself, and these
// operations do nothing but measure.
#pragma once

#include "gpu/comm/communicator.hpp"
#include "gpu/ops.hpp"
#include "gpu/plan/scratch_meter.hpp"

namespace tandem::gpu {

// Buffers are address space that nothing may touch: hundreds of GB cost nothing.
class ReservedAddresses final : public Memory {
 public:
  bool is_host() const noexcept override { return true; }
  Buffer allocate(std::size_t bytes) override;
  void place(Buffer&) override {}
  void upload(std::span<const std::byte>, void*) override {}
  Result<void> download(const void*, std::span<std::byte>) override { return {}; }
};

// Remembers the largest exchange.
class RehearsalGroup final : public Communicator {
 public:
  explicit RehearsalGroup(int ranks) noexcept : ranks_(ranks) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return ranks_; }
  Result<void> all_gather(std::span<const std::byte> local, std::span<std::byte> all) override {
    bytes_most_ = std::max(bytes_most_, local.size() + all.size());
    return {};
  }
  void abort(const std::string&) override {}
  std::size_t bytes_most() const noexcept { return bytes_most_; }

 private:
  int ranks_;
  std::size_t bytes_most_ = 0;
};

class RehearsalOps final : public Ops {
 public:
  explicit RehearsalOps(ScratchMeter& scratch) noexcept : scratch_(scratch) {}

  Memory& memory() noexcept override { return memory_; }
  Result<void> wait() override { return {}; }
  void beside(Side side, const std::function<void()>& body) override { scratch_.beside(side, body); }
  void prepare(Linear&) override {}
  void prepare(MoeWeights&) override {}

  void move_rows(std::span<const RowMove>, std::int64_t) override {}
  void clear(Tensor) override {}
  void scale(Tensor, float, bool) override {}
  void sum_blocks(const Tensor&, bool, Tensor) override {}
  Result<void> best_of_sum(const Tensor&, const Tensor&, Tensor, std::span<BestColumn>) override { return {}; }
  void gather_rows(const Linear&, std::span<const std::int32_t>, Tensor) override {}
  void linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor) override {
    scratch_.linear(x, weight, mode);
  }
  void linears(std::span<const LinearCall> calls) override { scratch_.linears(calls); }
  void partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor) override {
    for (const Linear& slice : weight.slices) scratch_.linear(x, slice, mode);
  }
  void rmsnorm(const Tensor&, const DenseF32&, double, bool, Tensor) override {}
  void round_bf16(Tensor) override {}
  void mhc_mix(const Tensor&, const HyperConnection&, const ModelConfig&, HcMix) override {}
  void mhc_collapse(const Tensor&, const Tensor&, bool, Tensor) override {}
  void mhc_expand(Tensor, const Tensor&, const HcMix&, bool) override {}
  void mean_streams(const Tensor&, int, bool, Tensor) override {}
  void rope(Tensor, int, std::span<const std::int64_t>, const RopeView&, bool, bool) override {}
  void quantise_x4(Tensor) override {}
  void write_window(const Tensor&, std::span<const RecordRing>, std::span<const std::int64_t>) override {}
  void write_entries(const Tensor&, std::span<const PagedRecords>, std::span<const std::int32_t>) override {}
  void pool_pair(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, Tensor) override {}
  void attention(const AttentionCall& call) override { scratch_.attention(call); }
  void index_select(const IndexCall& call) override { scratch_.index_select(call); }
  void route(const Tensor&, const Linear&, const float*, double, double, Routing) override {}
  void moe(const MoeCall& call) override { scratch_.moe(call); }
  void engram_gate(Tensor, const Tensor&, const EngramWeights&, const std::uint8_t*, const ModelConfig&,
                   bool) override {}

 private:
  ReservedAddresses memory_;
  ScratchMeter& scratch_;
};

}  // namespace tandem::gpu
