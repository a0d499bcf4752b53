// Only linears and experts are looked at; the rest is passed on as it is.
#include "gpu/exl3/calibration_ops.hpp"

#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu::exl3 {
namespace {

// Rows routed to one expert, and the weights of their results.
struct Selection {
  std::vector<float> rows, weights;

  void add(const float* row, std::int64_t count, float weight) {
    rows.insert(rows.end(), row, row + count);
    weights.push_back(weight);
  }
};

Selection select(const MoeCall& call, std::int32_t expert) {
  Selection selection;
  for (std::int64_t t = 0; t < call.x.rows; ++t) {
    for (std::int64_t j = 0; j < call.routing.ids.cols; ++j) {
      if (call.routing.ids.row<std::int32_t>(t)[j] != expert) continue;
      selection.add(call.x.row<float>(t), call.x.cols, call.routing.weights.row<float>(t)[j]);
    }
  }
  return selection;
}

class CalibrationOps final : public Ops {
 public:
  CalibrationOps(Ops& inner, MomentTable& table) : inner_(inner), table_(table) {}

  void linear(const Tensor& x, const Linear& weight, LinearMode mode, Tensor y) override {
    add(weight.name, x);
    inner_.linear(x, weight, mode, y);
  }
  void partial_linear(const Tensor& x, const PartialLinear& weight, LinearMode mode, Tensor y) override {
    add(weight.slices.front().name, x);
    inner_.partial_linear(x, weight, mode, y);
  }
  void moe(const MoeCall& call) override {
    for (std::size_t e = 0; e < call.weights->experts.size(); ++e) {
      const ExpertWeights& expert = call.weights->experts[e];
      if (is_wanted(expert)) look_at(call, expert, select(call, static_cast<std::int32_t>(e)));
    }
    const ExpertWeights& shared = call.weights->shared;
    if (!shared.w1.empty() && is_wanted(shared)) {
      Selection all;
      for (std::int64_t t = 0; t < call.x.rows; ++t) all.add(call.x.row<float>(t), call.x.cols, 1.0F);
      look_at(call, shared, all);
    }
    inner_.moe(call);
  }

  void prepare(Linear& weight) override { inner_.prepare(weight); }
  void gather_rows(const Linear& table, std::span<const std::int32_t> ids, Tensor out) override {
    inner_.gather_rows(table, ids, out);
  }
  void rmsnorm(const Tensor& x, const DenseF32& w, double eps, bool round, Tensor y) override {
    inner_.rmsnorm(x, w, eps, round, y);
  }
  void round_bf16(Tensor x) override { inner_.round_bf16(x); }
  void mhc_mix(const Tensor& streams, const HyperConnection& hc, const ModelConfig& config, HcMix out) override {
    inner_.mhc_mix(streams, hc, config, out);
  }
  void mhc_collapse(const Tensor& streams, const Tensor& pre, bool round, Tensor u) override {
    inner_.mhc_collapse(streams, pre, round, u);
  }
  void mhc_expand(Tensor streams, const Tensor& y, const HcMix& mix, bool round) override {
    inner_.mhc_expand(streams, y, mix, round);
  }
  void mean_streams(const Tensor& streams, int mult, bool round, Tensor out) override {
    inner_.mean_streams(streams, mult, round, out);
  }
  void rope(Tensor x, int heads, std::span<const std::int64_t> positions, const RopeView& table, bool inverse,
            bool round) override {
    inner_.rope(x, heads, positions, table, inverse, round);
  }
  void quantise_x4(Tensor x) override { inner_.quantise_x4(x); }
  void write_window(const Tensor& x, std::span<const RecordRing> rings,
                    std::span<const std::int64_t> positions) override {
    inner_.write_window(x, rings, positions);
  }
  void write_entries(const Tensor& x, std::span<const PagedRecords> caches,
                     std::span<const std::int32_t> entries) override {
    inner_.write_entries(x, caches, entries);
  }
  void pool_pair(const Tensor& ka, const Tensor& ga, const Tensor& kb, const Tensor& gb, bool round,
                 Tensor z) override {
    inner_.pool_pair(ka, ga, kb, gb, round, z);
  }
  void attention(const AttentionCall& call) override { inner_.attention(call); }
  void index_select(const IndexCall& call) override { inner_.index_select(call); }
  void route(const Tensor& x, const Linear& gate, const float* bias, double temperature, double scaling,
             Routing out) override {
    inner_.route(x, gate, bias, temperature, scaling, out);
  }
  void engram_gate(Tensor streams, const Tensor& kv, const EngramWeights& weights, const std::uint8_t* keep,
                   const ModelConfig& config, bool round) override {
    inner_.engram_gate(streams, kv, weights, keep, config, round);
  }

 private:
  Moments* find(const std::string& module) {
    const auto at = table_.find(moments_name(module));
    return at == table_.end() ? nullptr : &at->second;
  }
  bool is_wanted(const ExpertWeights& expert) {
    return find(expert.w1.name) != nullptr || find(expert.w2.slices.front().name) != nullptr;
  }

  void add(const std::string& module, const Tensor& x) {
    Moments* moments = find(module);
    if (moments == nullptr) return;
    for (std::int64_t t = 0; t < x.rows; ++t) moments->add(x.row<float>(t));
  }

  // Computes the activations between the projections once more: the backend's own stay inside its product.
  void look_at(const MoeCall& call, const ExpertWeights& expert, Selection selection) {
    const auto rows = static_cast<std::int64_t>(selection.weights.size());
    if (rows == 0) return;
    const Tensor x = Tensor::f32(selection.rows.data(), rows, call.x.cols);
    add(expert.w1.name, x);
    const std::int64_t inter = expert.w1.n;
    std::vector<float> gate(static_cast<std::size_t>(rows * inter)), up(gate.size());
    const LinearMode mode{call.numerics.q8 && expert.w1.is_low_precision(), call.numerics.bf16_activations};
    inner_.linear(x, expert.w1, mode, Tensor::f32(gate.data(), rows, inter));
    inner_.linear(x, expert.w3, mode, Tensor::f32(up.data(), rows, inter));
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = gate.data() + r * inter;
      simd::swiglu({row, up.data() + r * inter, static_cast<float>(call.swiglu_limit),
                    selection.weights[static_cast<std::size_t>(r)]},
                   inter, row);
    }
    add(expert.w2.slices.front().name, Tensor::f32(gate.data(), rows, inter));
  }

  Ops& inner_;
  MomentTable& table_;
};

}  // namespace

std::string moments_name(std::string module) {
  const bool is_expert =
      module.find(".experts.") != std::string::npos || module.find(".shared_experts.") != std::string::npos;
  if (is_expert && module.ends_with(".w3")) module.back() = '1';
  return module;
}

std::unique_ptr<Ops> make_calibration_ops(Ops& inner, MomentTable& table) {
  return std::make_unique<CalibrationOps>(inner, table);
}

}  // namespace tandem::gpu::exl3
