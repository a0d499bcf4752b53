// Norms, rounding, rotation and pooling of rows.
#include "gpu/cpu/row_ops.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

// Rotates the pairs (x[2k], x[2k+1]) as complex numbers by (cos, sin), products and sums rounded one by one as the
// reference does.
void rotate(float* x, const float* cos, const float* sin, int pairs, bool inverse) {
  const float direction = inverse ? -1.0F : 1.0F;
  for (int k = 0; k < pairs; ++k) {
    const float re = x[2 * k], im = x[2 * k + 1], s = sin[k] * direction;
    x[2 * k] = re * cos[k] - im * s;
    x[2 * k + 1] = re * s + im * cos[k];
  }
}

}  // namespace

void cpu_gather_rows(CpuContext& context, const Linear& table, std::span<const std::int32_t> ids, const Tensor& out) {
  context.for_each_row(static_cast<std::int64_t>(ids.size()), table.k, [&](std::int64_t t) {
    const std::int64_t id = ids[static_cast<std::size_t>(t)];
    simd::decode_bf16(table.codes.as<const std::uint16_t>() + id * table.k, table.k, out.row<float>(t));
  });
}

void cpu_rmsnorm(CpuContext& context, const Tensor& x, const DenseF32& w, double eps, bool round, const Tensor& y) {
  context.for_each_row(x.rows, x.cols, [&](std::int64_t t) {
    const float mean = context.sum_of_squares(x.row<float>(t), x.cols) / static_cast<float>(x.cols);
    const float factor = 1.0F / std::sqrt(mean + static_cast<float>(eps));
    simd::scale_by(x.row<float>(t), factor, w.data(), x.cols, y.row<float>(t));
    if (round) simd::round_bf16(y.row<float>(t), x.cols);
  });
}

void cpu_round_bf16(CpuContext& context, const Tensor& x) {
  context.for_each_row(x.rows, x.cols, [&](std::int64_t t) { simd::round_bf16(x.row<float>(t), x.cols); });
}

void cpu_mean_streams(CpuContext& context, const Tensor& streams, int mult, bool round, const Tensor& out) {
  const std::int64_t width = streams.cols / mult;
  context.for_each_row(streams.rows, streams.cols, [&](std::int64_t t) {
    float* mean = out.row<float>(t);
    std::copy_n(streams.row<float>(t), width, mean);
    for (int c = 1; c < mult; ++c) simd::add(streams.row<float>(t) + c * width, width, mean);
    simd::scale(1.0F / static_cast<float>(mult), mean, width, mean);
    if (round) simd::round_bf16(mean, width);
  });
}

void cpu_rope(CpuContext& context, const RopeCall& call) {
  const std::int64_t dim = call.x.cols / call.heads;
  const int rotated = 2 * call.table.pairs;
  context.for_each_row(call.x.rows, call.x.cols, [&](std::int64_t t) {
    const std::int64_t at = call.positions[static_cast<std::size_t>(t)] * call.table.pairs;
    for (int h = 0; h < call.heads; ++h) {
      float* tail = call.x.row<float>(t) + (h + 1) * dim - rotated;
      rotate(tail, call.table.cos + at, call.table.sin + at, call.table.pairs, call.inverse);
      if (call.round) simd::round_bf16(tail, rotated);
    }
  });
}

void cpu_pool_pair(CpuContext& context, const PoolCall& call) {
  context.for_each_row(call.z.rows, 4 * call.z.cols, [&](std::int64_t t) {
    const simd::PairPool pair{call.ka.row<float>(t), call.ga.row<float>(t), call.kb.row<float>(t),
                              call.gb.row<float>(t)};
    simd::pool_pair(pair, call.z.cols, call.z.row<float>(t));
    if (call.round) simd::round_bf16(call.z.row<float>(t), call.z.cols);
  });
}

// z = dot(h q, k key) / (|h| |key| sqrt(D)) in the RMS sense; the gate is the sigmoid of its signed square root.
void cpu_engram_gate(CpuContext& context, const EngramGateCall& call) {
  const std::int64_t width = call.config->hidden;
  const int mult = call.config->hc_mult;
  const auto eps = static_cast<float>(call.config->norm_eps);
  std::vector<float> qk(static_cast<std::size_t>(mult * width));
  for (std::size_t i = 0; i < qk.size(); ++i)
    qk[i] = call.weights->q_weight.data()[i] * call.weights->k_weight.data()[i];
  context.for_each_row(call.streams.rows, 4 * call.streams.cols, [&](std::int64_t t) {
    if (call.keep[t] == 0) return;
    const float* value = call.kv.row<float>(t) + mult * width;
    for (int s = 0; s < mult; ++s) {
      float* h = call.streams.row<float>(t) + s * width;
      const float* key = call.kv.row<float>(t) + s * width;
      const float rh = 1.0F / std::sqrt(context.sum_of_squares(h, width) / static_cast<float>(width) + eps);
      const float rk = 1.0F / std::sqrt(context.sum_of_squares(key, width) / static_cast<float>(width) + eps);
      const float dot = context.dot3(h, qk.data() + s * width, key, width);
      const float z = dot * rh * rk / std::sqrt(static_cast<float>(width));
      float decay = -std::copysign(std::sqrt(std::max(std::abs(z), 1e-6F)), z);
      simd::exp(&decay, 1);
      context.add_scaled(1.0F / (1.0F + decay), value, width, h);
      if (call.round) simd::round_bf16(h, width);
    }
  });
}

}  // namespace tandem::gpu
