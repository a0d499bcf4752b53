// Coefficients and applications of the hyper-connections. The Sinkhorn rounds end with a column normalisation.
#include "gpu/cpu/mhc_ops.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/cpu/linear_ops.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

constexpr std::int64_t expand_block = 256;  // columns of all streams that expand holds at a time

float sigmoid(float z) {
  float decay = -z;
  simd::exp(&decay, 1);
  return 1.0F / (1.0F + decay);
}

void divide_rows(float* a, int mult, float eps) {
  for (int j = 0; j < mult; ++j) {
    float sum = 0;
    for (int k = 0; k < mult; ++k) sum += a[j * mult + k];
    for (int k = 0; k < mult; ++k) a[j * mult + k] /= sum + eps;
  }
}

void divide_columns(float* a, int mult, float eps) {
  for (int k = 0; k < mult; ++k) {
    float sum = 0;
    for (int j = 0; j < mult; ++j) sum += a[j * mult + k];
    for (int j = 0; j < mult; ++j) a[j * mult + k] /= sum + eps;
  }
}

void softmax_rows(float* a, int mult, float eps) {
  for (int j = 0; j < mult; ++j) {
    float* row = a + j * mult;
    const float most = *std::max_element(row, row + mult);
    for (int k = 0; k < mult; ++k) row[k] -= most;
    simd::exp(row, mult);
    float sum = 0;
    for (int k = 0; k < mult; ++k) sum += row[k];
    for (int k = 0; k < mult; ++k) row[k] = row[k] / sum + eps;
  }
}

}  // namespace

void split_mix(const MixRow& row, const MixOut& out) {
  const int mult = row.mult;
  for (int j = 0; j < mult; ++j) {
    out.pre[j] = sigmoid(row.raw[j] * row.scale[0] + row.base[j]) + row.eps;
    out.post[j] = 2.0F * sigmoid(row.raw[mult + j] * row.scale[1] + row.base[mult + j]);
  }
  for (int i = 0; i < mult * mult; ++i) out.comb[i] = row.raw[2 * mult + i] * row.scale[2] + row.base[2 * mult + i];
  softmax_rows(out.comb, mult, row.eps);
  divide_columns(out.comb, mult, row.eps);
  for (int i = 1; i < row.iterations; ++i) {
    divide_rows(out.comb, mult, row.eps);
    divide_columns(out.comb, mult, row.eps);
  }
}

void cpu_mhc_mix(CpuContext& context, const Tensor& streams, const HyperConnection& hc, const ModelConfig& config,
                 const HcMix& out) {
  const std::int64_t width = config.mix_width();
  std::vector<float> raw(static_cast<std::size_t>(streams.rows * width));
  Linear fn;
  fn.format = WeightFormat::f32;
  fn.n = width;
  fn.k = streams.cols;
  fn.codes = hc.fn.values;
  cpu_linear(context, streams, fn, {.q8 = false, .round_output = false}, Tensor::f32(raw.data(), streams.rows, width));
  context.for_each_row(streams.rows, streams.cols, [&](std::int64_t t) {
    float* row = raw.data() + t * width;
    const float mean = context.sum_of_squares(streams.row<float>(t), streams.cols) / static_cast<float>(streams.cols);
    simd::scale(1.0F / std::sqrt(mean + static_cast<float>(config.norm_eps)), row, width, row);
    split_mix({row, hc.scale.data(), hc.base.data(), config.hc_mult, config.hc_sinkhorn_iters,
               static_cast<float>(config.hc_eps)},
              {out.pre.row<float>(t), out.post.row<float>(t), out.comb.row<float>(t)});
  });
}

void cpu_mhc_collapse(CpuContext& context, const Tensor& streams, const Tensor& pre, bool round, const Tensor& u) {
  const std::int64_t width = u.cols;
  context.for_each_row(u.rows, streams.cols, [&](std::int64_t t) {
    const float* mix = pre.row<float>(t);
    float* sum = u.row<float>(t);
    simd::scale(mix[0], streams.row<float>(t), width, sum);
    for (std::int64_t j = 1; j < pre.cols; ++j)
      context.add_scaled(mix[j], streams.row<float>(t) + j * width, width, sum);
    if (round) simd::round_bf16(sum, width);
  });
}

void cpu_mhc_expand(CpuContext& context, const Tensor& streams, const Tensor& y, const HcMix& mix, bool round) {
  const std::int64_t width = y.cols, mult = mix.post.cols;
  context.for_each_row(y.rows, 2 * streams.cols, [&](std::int64_t t) {
    std::vector<float> old(static_cast<std::size_t>(mult * expand_block));
    const float* post = mix.post.row<float>(t);
    const float* comb = mix.comb.row<float>(t);
    for (std::int64_t first = 0; first < width; first += expand_block) {
      const std::int64_t n = std::min(expand_block, width - first);
      float* stream = streams.row<float>(t) + first;
      for (std::int64_t j = 0; j < mult; ++j) std::copy_n(stream + j * width, n, old.data() + j * expand_block);
      for (std::int64_t k = 0; k < mult; ++k) {
        float* target = stream + k * width;
        const float* sublayer = y.row<float>(t) + first;
        // The reference adds up the old streams first.
        const bool streams_first = context.in_reference_order();
        if (streams_first) std::fill_n(target, n, 0.0F);
        if (!streams_first) simd::scale(post[k], sublayer, n, target);
        for (std::int64_t j = 0; j < mult; ++j)
          context.add_scaled(comb[j * mult + k], old.data() + j * expand_block, n, target);
        if (streams_first) context.add_scaled(post[k], sublayer, n, target);
        if (round) simd::round_bf16(target, n);
      }
    }
  });
}

}  // namespace tandem::gpu
