// Panels of weights times blocks of rows; see the header for the blocking and kernels.hpp for the order of summation.
#include "gpu/cpu/product.hpp"

#include <algorithm>
#include <limits>

#include "gpu/cpu/chain_product.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

using simd::lanes;

constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

void decode_row(const Linear& w, std::int64_t row, std::int64_t k_first, std::int64_t count, float* out) {
  const std::int64_t scale_cols = rounded_up(w.k, 32) / 32;
  switch (w.format) {
    case WeightFormat::bf16:
      return simd::decode_bf16(w.codes.as<const std::uint16_t>() + row * w.k + k_first, count, out);
    case WeightFormat::f32:
      std::copy_n(w.codes.as<const float>() + row * w.k + k_first, count, out);
      return;
    case WeightFormat::fp8_block32:
      return simd::decode_fp8(w.codes.as<const std::uint8_t>() + row * w.k + k_first,
                              w.scales.as<const std::uint8_t>() + row / 32 * scale_cols + k_first / 32, count, out);
    case WeightFormat::fp4_block32:
      return simd::decode_fp4(w.codes.as<const std::uint8_t>() + (row * w.k + k_first) / 2,
                              w.scales.as<const std::uint8_t>() + row * scale_cols + k_first / 32, count, out);
    case WeightFormat::exl3:
      break;
  }
  std::fill_n(out, count, std::numeric_limits<float>::quiet_NaN());
}

// Multiplies the decoded panel with the block's rows; the last inputs that do not fill 16 lanes come from a padded
// copy.
void multiply_decoded(ProductScratch& scratch, RowList x, std::int64_t cols, std::int64_t k_first, std::int64_t depth) {
  const std::int64_t whole = depth - depth % lanes;
  simd::Tile tile;
  tile.x = x.data();
  tile.x_first = k_first;
  tile.w = scratch.panel.data();
  tile.w_stride = panel_depth;
  tile.acc = scratch.acc.data();
  tile.acc_stride = cols;
  tile.rows = static_cast<std::int64_t>(x.size());
  tile.cols = cols;
  tile.k = whole;
  tile.first = k_first == 0;
  simd::multiply_tile(tile);
  if (whole == depth) return;
  const float* tails[block_rows];
  for (std::size_t r = 0; r < x.size(); ++r) {
    float* tail = scratch.tail.data() + r * lanes;
    std::fill_n(tail, lanes, 0.0F);
    std::copy_n(x[r] + k_first + whole, depth - whole, tail);
    tails[r] = tail;
  }
  tile.x = tails;
  tile.x_first = 0;
  tile.w += whole;
  tile.k = lanes;
  tile.first = false;
  simd::multiply_tile(tile);
}

// All inputs of the outputs in `range` for at most block_rows rows.
void multiply_block(ProductScratch& scratch, RowList x, const PanelRange& range, float* y, std::int64_t y_stride) {
  const std::int64_t k = range.weight->k;
  const std::int64_t cols = rounded_up(range.count, simd::tile_cols);
  for (std::int64_t k_first = 0; k_first < k; k_first += panel_depth) {
    const std::int64_t depth = std::min(panel_depth, k - k_first);
    decode_weights(range, k_first, depth, scratch.panel.data(), panel_depth);
    multiply_decoded(scratch, x, cols, k_first, depth);
  }
  for (std::size_t r = 0; r < x.size(); ++r) {
    const float* acc = scratch.acc.data() + static_cast<std::int64_t>(r) * cols * lanes;
    float* out = y + static_cast<std::int64_t>(r) * y_stride;
    for (std::int64_t c = 0; c < range.count; ++c) out[c] = simd::add_lanes(acc + c * lanes);
  }
}

}  // namespace

ProductScratch::ProductScratch(SumOrder sum_order)
    : order(sum_order),
      panel(panel_cols * panel_depth),
      acc(block_rows * panel_cols * lanes),
      tail(block_rows * lanes) {}

void multiply_panel(ProductScratch& scratch, RowList x, const PanelRange& range, float* y, std::int64_t y_stride) {
  if (scratch.order == SumOrder::reference)
    return multiply_chain(scratch, x, {{range.weight, 1}, range.first, range.count}, y, y_stride);
  // With few rows the weights are streamed: as many rows of W as one tile has, each read from end to end.
  const std::int64_t step = x.size() <= 6 ? simd::tile_cols : panel_cols;
  for (std::int64_t c = 0; c < range.count; c += step) {
    const PanelRange part{range.weight, range.first + c, std::min(step, range.count - c)};
    for (std::size_t r = 0; r < x.size(); r += block_rows) {
      const RowList rows = x.subspan(r, std::min<std::size_t>(block_rows, x.size() - r));
      multiply_block(scratch, rows, part, y + static_cast<std::int64_t>(r) * y_stride + c, y_stride);
    }
  }
}

void decode_weights(const PanelRange& range, std::int64_t k_first, std::int64_t k_count, float* out,
                    std::int64_t stride) {
  const std::int64_t padded = rounded_up(k_count, lanes);
  for (std::int64_t c = 0; c < range.count; ++c) {
    decode_row(*range.weight, range.first + c, k_first, k_count, out + c * stride);
    std::fill(out + c * stride + k_count, out + c * stride + padded, 0.0F);
  }
}

std::vector<const float*> row_pointers(const float* first, std::int64_t rows, std::int64_t stride) {
  std::vector<const float*> pointers(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) pointers[static_cast<std::size_t>(r)] = first + r * stride;
  return pointers;
}

}  // namespace tandem::gpu
