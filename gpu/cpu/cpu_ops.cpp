// The class only distributes: each topic's operations live in a file of their own and share a CpuContext.
#include "gpu/cpu/cpu_ops.hpp"

#include "gpu/cpu/attention_ops.hpp"
#include "gpu/cpu/index_ops.hpp"
#include "gpu/cpu/linear_ops.hpp"
#include "gpu/cpu/mhc_ops.hpp"
#include "gpu/cpu/moe_ops.hpp"
#include "gpu/cpu/row_ops.hpp"

namespace tandem::gpu {
namespace {

class CpuOps final : public Ops {
 public:
  CpuOps(int threads, SumOrder order) : context_(threads, order) {}

  void prepare(Linear&) override {}  // the file's own codes are what the kernels read

  void gather_rows(const Linear& table, std::span<const std::int32_t> ids, Tensor out) override {
    cpu_gather_rows(context_, table, ids, out);
  }
  void linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor y) override {
    cpu_linear(context_, x, weight, mode, y);
  }
  void partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor y) override {
    cpu_partial_linear(context_, x, weight, mode, y);
  }
  void rmsnorm(const Tensor& x, const DenseF32& w, double eps, bool round, Tensor y) override {
    cpu_rmsnorm(context_, x, w, eps, round, y);
  }
  void round_bf16(Tensor x) override { cpu_round_bf16(context_, x); }

  void mhc_mix(const Tensor& streams, const HyperConnection& hc, const ModelConfig& config, HcMix out) override {
    cpu_mhc_mix(context_, streams, hc, config, out);
  }
  void mhc_collapse(const Tensor& streams, const Tensor& pre, bool round, Tensor u) override {
    cpu_mhc_collapse(context_, streams, pre, round, u);
  }
  void mhc_expand(Tensor streams, const Tensor& y, const HcMix& mix, bool round) override {
    cpu_mhc_expand(context_, streams, y, mix, round);
  }
  void mean_streams(const Tensor& streams, int mult, bool round, Tensor out) override {
    cpu_mean_streams(context_, streams, mult, round, out);
  }

  void rope(Tensor x, int heads, std::span<const std::int64_t> positions, const RopeView& table, bool inverse,
            bool round) override {
    cpu_rope(context_, {x, heads, positions, table, inverse, round});
  }
  void quantise_x4(Tensor x) override { cpu_quantise_x4(context_, x); }
  void write_window(const Tensor& x, std::span<const RecordRing> rings,
                    std::span<const std::int64_t> positions) override {
    cpu_write_window(context_, x, rings, positions);
  }
  void write_entries(const Tensor& x, std::span<const PagedRecords> caches,
                     std::span<const std::int32_t> entries) override {
    cpu_write_entries(context_, x, caches, entries);
  }
  void pool_pair(const Tensor& ka, const Tensor& ga, const Tensor& kb, const Tensor& gb, bool round,
                 Tensor z) override {
    cpu_pool_pair(context_, {ka, ga, kb, gb, round, z});
  }

  void attention(const AttentionCall& call) override { cpu_attention(context_, call); }
  void index_select(const IndexCall& call) override { cpu_index_select(context_, call); }

  void route(const Tensor& x, const Linear& gate, const float* bias, double temperature, double scaling,
             Routing out) override {
    cpu_route(context_, {x, &gate, bias, temperature, scaling, out});
  }
  void moe(const MoeCall& call) override { cpu_moe(context_, call); }

  void engram_gate(Tensor streams, const Tensor& kv, const EngramWeights& weights, const std::uint8_t* keep,
                   const ModelConfig& config, bool round) override {
    cpu_engram_gate(context_, {streams, kv, &weights, keep, &config, round});
  }

 private:
  CpuContext context_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(int threads, SumOrder order) {
  return std::make_unique<CpuOps>(threads, order);
}

}  // namespace tandem::gpu
