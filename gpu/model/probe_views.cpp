// Plain loops in double precision over host copies; the formulas are those of the operations whose values are shown.
#include "gpu/model/probe_views.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace tandem::gpu {
namespace {

// Host copies of tensors of the backend, alive as long as this object.
class HostCopies {
 public:
  explicit HostCopies(Memory& memory) : memory_(memory) {}

  Tensor of(const Tensor& value) {
    buffers_.emplace_back();
    const auto readable = on_host(memory_, value, buffers_.back());
    complete_ = complete_ && readable.has_value();
    return readable ? *readable : Tensor{};
  }
  Tensor of(const DenseF32& value) { return of(Tensor::f32(value.values.as<float>(), value.rows, value.cols)); }
  bool complete() const noexcept { return complete_; }

 private:
  Memory& memory_;
  std::vector<Buffer> buffers_;
  bool complete_ = true;
};

double dot(const float* a, const float* b, std::int64_t n) noexcept {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double inverse_rms(const float* x, std::int64_t n, double eps) noexcept {
  return 1.0 / std::sqrt(dot(x, x, n) / static_cast<double>(n) + eps);
}

// The gate of a stream h and its key, with the norm weights q and k; n values each.
double gate_of(const float* h, const float* key, const float* q, const float* k, std::int64_t n, double eps) noexcept {
  double z = 0;
  for (std::int64_t i = 0; i < n; ++i) z += static_cast<double>(h[i]) * (q[i] * k[i]) * key[i];
  z *= inverse_rms(h, n, eps) * inverse_rms(key, n, eps) / std::sqrt(static_cast<double>(n));
  return 1.0 / (1.0 + std::exp(-std::copysign(std::sqrt(std::max(std::abs(z), 1e-6)), z)));
}

void record(const StepContext& step, const char* site, std::vector<float>& values, std::vector<std::int64_t> shape) {
  const std::int64_t rows = shape.front();
  const auto cols = rows == 0 ? 0 : static_cast<std::int64_t>(values.size()) / rows;
  step.probe->record(step.scope + site, Tensor::f32(values.data(), rows, cols), shape);
}

}  // namespace

float selection_margin(std::span<float> scores, std::size_t count) {
  if (count == 0 || scores.size() <= count) return std::numeric_limits<float>::infinity();
  std::partial_sort(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(count) + 1, scores.end(),
                    std::greater<>());
  return std::isfinite(scores[count]) ? scores[count - 1] - scores[count] : std::numeric_limits<float>::infinity();
}

void show_mix(const StepContext& step, const char* site, const Tensor& streams, const HyperConnection& weights) {
  if (step.probe == nullptr) return;
  HostCopies copies(step.ops().memory());
  const Tensor x = copies.of(streams), fn = copies.of(weights.fn);
  if (!copies.complete()) return;
  std::vector<float> mix;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const double factor = inverse_rms(x.row<float>(row), x.cols, step.config().norm_eps);
    for (std::int64_t i = 0; i < fn.rows; ++i)
      mix.push_back(static_cast<float>(dot(x.row<float>(row), fn.row<float>(i), x.cols) * factor));
  }
  record(step, site, mix, {x.rows, fn.rows});
}

void show_engram_gate(const StepContext& step, const Tensor& streams, const Tensor& kv, const EngramWeights& weights,
                      std::span<const std::uint8_t> keep) {
  if (step.probe == nullptr) return;
  const std::int64_t width = step.config().hidden, mult = step.config().hc_mult;
  HostCopies copies(step.ops().memory());
  const Tensor x = copies.of(streams), keys = copies.of(kv);
  const Tensor q = copies.of(weights.q_weight), k = copies.of(weights.k_weight);
  if (!copies.complete()) return;
  std::vector<float> gates(static_cast<std::size_t>(x.rows * mult));
  for (std::int64_t row = 0; row < x.rows; ++row) {
    if (keep[static_cast<std::size_t>(row)] == 0) continue;
    for (std::int64_t s = 0; s < mult; ++s) {
      const std::int64_t at = s * width;
      const double gate = gate_of(x.row<float>(row) + at, keys.row<float>(row) + at, q.row<float>(0) + at,
                                  k.row<float>(0) + at, width, step.config().norm_eps);
      gates[static_cast<std::size_t>(row * mult + s)] = static_cast<float>(gate);
    }
  }
  record(step, "engram_gate", gates, {x.rows, mult});
}

void RouterMargins::add(const Tensor& input, const float* bias) {
  if (step_.probe == nullptr) return;
  const Workspace::Scope scope(step_.workspace);
  const Tensor products = step_.workspace.f32(input.rows, gate_.n);
  step_.ops().linear(input, gate_, {false, false}, products);
  HostCopies copies(step_.ops().memory());
  const Tensor x = copies.of(products);
  const Tensor added = copies.of(Tensor::f32(const_cast<float*>(bias), bias == nullptr ? 0 : 1, gate_.n));
  if (!copies.complete()) return;
  std::vector<float> scores(static_cast<std::size_t>(gate_.n));
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t e = 0; e < gate_.n; ++e) {
      const double z = x.row<float>(row)[e] / step_.config().gate_temperature;
      const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
      scores[static_cast<std::size_t>(e)] =
          static_cast<float>(std::sqrt(softplus) + (added.empty() ? 0.0F : added.row<float>(0)[e]));
    }
    margins_.push_back(selection_margin(scores, static_cast<std::size_t>(chosen_)));
  }
}

void RouterMargins::show() const {
  if (step_.probe == nullptr) return;
  std::vector<float> margins = margins_;
  const auto rows = static_cast<std::int64_t>(margins.size());
  record(step_, "router_margin", margins, {rows});
}

}  // namespace tandem::gpu
