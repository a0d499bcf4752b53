// Output scales first, then the transform along the outputs, then input scales, then the transform along the inputs.
#include "gpu/exl3/regularise.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/exl3/hadamard.hpp"

namespace tandem::gpu::exl3 {
namespace {

// The standard deviation of codebook 3INST, which the format counts as unit size; the sign is a convention.
constexpr float input_unit = -1.24371088F;
constexpr float scale_of_zero = 0.1F;

std::vector<float> column_sizes(const std::vector<float>& values, std::int64_t in, std::int64_t out) {
  std::vector<double> sums(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < in; ++i) {
    for (std::int64_t j = 0; j < out; ++j) {
      const double value = values[static_cast<std::size_t>(i * out + j)];
      sums[static_cast<std::size_t>(j)] += value * value;
    }
  }
  std::vector<float> sizes;
  for (const double sum : sums) sizes.push_back(static_cast<float>(std::sqrt(sum / static_cast<double>(in))));
  return sizes;
}

void scale_outputs(Regularised& r, std::span<const float> signs) {
  std::vector<float> sizes = column_sizes(r.values, r.in, r.out);
  double mean = 0;
  for (const float size : sizes) mean += size;
  mean /= static_cast<double>(r.out);
  r.sv.resize(sizes.size());
  r.is_zero.resize(sizes.size());
  for (std::size_t j = 0; j < sizes.size(); ++j) {
    r.is_zero[j] = sizes[j] == 0 ? 1 : 0;
    r.sv[j] = signs[j] * (sizes[j] == 0 ? scale_of_zero : static_cast<float>(sizes[j] / mean));
  }
  for (std::int64_t i = 0; i < r.in; ++i) {
    for (std::int64_t j = 0; j < r.out; ++j)
      r.values[static_cast<std::size_t>(i * r.out + j)] /= r.sv[static_cast<std::size_t>(j)];
  }
}

void scale_inputs(Regularised& r, std::span<const float> signs) {
  r.su.resize(static_cast<std::size_t>(r.in));
  for (std::int64_t i = 0; i < r.in; ++i) {
    float* row = r.values.data() + i * r.out;
    double sum = 0;
    for (std::int64_t j = 0; j < r.out; ++j) sum += double{row[j]} * row[j];
    const auto size = static_cast<float>(std::sqrt(sum / static_cast<double>(r.out)));
    const float scale = signs[static_cast<std::size_t>(i)] * (size == 0 ? scale_of_zero : size) / input_unit;
    r.su[static_cast<std::size_t>(i)] = scale;
    for (std::int64_t j = 0; j < r.out; ++j) row[j] /= scale;
  }
}

}  // namespace

Regularised regularise(std::span<const float> weight, std::span<const float> signs_in,
                       std::span<const float> signs_out) {
  Regularised r;
  r.in = static_cast<std::int64_t>(signs_in.size());
  r.out = static_cast<std::int64_t>(signs_out.size());
  r.values.assign(weight.begin(), weight.end());
  scale_outputs(r, signs_out);
  transform_rows(r.values.data(), r.in, r.out);
  scale_inputs(r, signs_in);
  transform_columns(r.values.data(), r.in, r.out);
  return r;
}

}  // namespace tandem::gpu::exl3
