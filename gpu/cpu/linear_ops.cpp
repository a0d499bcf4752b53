// Linears over panels of outputs; whichever worker is free takes the next panel.
#include "gpu/cpu/linear_ops.hpp"

#include <algorithm>

#include "gpu/cpu/chain_product.hpp"
#include "gpu/cpu/exl3_product.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

void multiply(CpuContext& context, RowList x, const Linear& weight, bool round, const Tensor& y) {
  if (weight.format == WeightFormat::exl3) return cpu_exl3_linear(context, x, weight, round, y);
  const std::int64_t panels = (weight.n + panel_cols - 1) / panel_cols;
  const std::int64_t macs = static_cast<std::int64_t>(x.size()) * panel_cols * weight.k;
  context.pool.for_each_unit(panels, unit_grain(macs), [&](int worker, std::int64_t panel) {
    const std::int64_t first = panel * panel_cols;
    const PanelRange range{&weight, first, std::min(panel_cols, weight.n - first)};
    multiply_panel(context.product(worker), x, range, y.row<float>(0) + first, y.stride);
    if (!round) return;
    for (std::int64_t r = 0; r < y.rows; ++r) simd::round_bf16(y.row<float>(r) + first, range.count);
  });
}

// The chain runs over all slices: the first block of y gets the whole sum, the others zeros.
void multiply_whole(CpuContext& context, RowList x, std::span<const Linear> slices, const Tensor& y) {
  const std::int64_t n = slices.front().n, rows = static_cast<std::int64_t>(x.size());
  context.pool.for_each_unit((n + panel_cols - 1) / panel_cols, 1, [&](int worker, std::int64_t panel) {
    const std::int64_t first = panel * panel_cols, count = std::min(panel_cols, n - first);
    multiply_chain(context.product(worker), x, {slices, first, count}, y.row<float>(0) + first, y.stride);
  });
  for (std::int64_t row = rows; row < y.rows; ++row) std::fill_n(y.row<float>(row), n, 0.0F);
}

}  // namespace

std::vector<const float*> product_rows(CpuContext& context, const Tensor& x, bool q8) {
  if (!q8) return row_pointers(x.row<float>(0), x.rows, x.stride);
  const auto size = static_cast<std::size_t>(x.rows * x.cols);
  if (context.quantised.size() < size) context.quantised.resize(size);
  float* copy = context.quantised.data();
  context.for_each_row(x.rows, x.cols, [&](std::int64_t r) {
    std::copy_n(x.row<float>(r), x.cols, copy + r * x.cols);
    simd::fake_q8(copy + r * x.cols, x.cols);
  });
  return row_pointers(copy, x.rows, x.cols);
}

void cpu_linear(CpuContext& context, const Tensor& x, const Linear& weight, LinearMode mode, const Tensor& y) {
  if (x.rows == 0 || weight.empty()) return;
  multiply(context, product_rows(context, x, mode.q8 && weight.is_low_precision()), weight, mode.round_output, y);
}

void cpu_partial_linear(CpuContext& context, const Tensor& x, const PartialLinear& weight, LinearMode mode,
                        const Tensor& y) {
  if (x.rows == 0 || weight.slices.empty()) return;
  std::vector<const float*> rows = product_rows(context, x, mode.q8 && weight.slices.front().is_low_precision());
  const bool chained = weight.slices.front().format != WeightFormat::exl3;
  if (context.in_reference_order() && chained) return multiply_whole(context, rows, weight.slices, y);
  std::int64_t row = 0;
  for (const Linear& slice : weight.slices) {
    multiply(context, rows, slice, false, y.slice_rows(row, x.rows));
    row += x.rows;
    for (const float*& pointer : rows) pointer += slice.k;
  }
}

}  // namespace tandem::gpu
