// Strips of decoded weights times blocks of rows; see the header for the order.
#include "gpu/cpu/exl3_product.hpp"

#include <algorithm>

#include "gpu/cpu/exl3_kernels.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

using exl3::block_side;
using exl3::tile_side;
using simd::lanes;

static_assert(panel_cols == tile_side && lanes == tile_side && panel_depth % tile_side == 0);

// Lane sums of 16 outputs for all rows: raw[r][0..15] of a [rows, block_side] buffer.
void multiply_strip(ProductScratch& scratch, RowList x, const Linear& weight, std::int64_t strip, float* raw) {
  const std::int64_t k = exl3::padded_side(weight.k);
  const std::int64_t words = weight.exl3.tile_words();
  const auto* codes = weight.codes.as<const std::uint16_t>() + strip * (k / tile_side) * words;
  simd::Tile tile;
  tile.x = x.data();
  tile.w = scratch.panel.data();
  tile.w_stride = panel_depth;
  tile.acc = scratch.acc.data();
  tile.acc_stride = panel_cols;
  tile.rows = static_cast<std::int64_t>(x.size());
  tile.cols = panel_cols;
  for (std::int64_t first = 0; first < k; first += panel_depth) {
    tile.x_first = first;
    tile.k = std::min(panel_depth, k - first);
    tile.first = first == 0;
    simd::decode_exl3(
        {codes + first / tile_side * words, tile.k / tile_side, weight.exl3, scratch.panel.data(), panel_depth});
    simd::multiply_tile(tile);
  }
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for (std::int64_t c = 0; c < panel_cols; ++c) {
      raw[r * block_side + c] = simd::add_lanes(tile.acc + (r * panel_cols + c) * lanes);
    }
  }
}

}  // namespace

void multiply_exl3_block(ProductScratch& scratch, RowList transformed, const Linear& weight, std::int64_t block,
                         float* y, std::int64_t y_stride) {
  const std::int64_t first = block * block_side;
  const std::int64_t count = std::min(block_side, weight.n - first);
  alignas(64) float raw[block_rows * block_side];
  for (std::size_t r = 0; r < transformed.size(); r += block_rows) {
    const RowList rows = transformed.subspan(r, std::min<std::size_t>(block_rows, transformed.size() - r));
    for (std::int64_t c = 0; c < block_side; c += tile_side) {
      multiply_strip(scratch, rows, weight, (first + c) / tile_side, raw + c);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      simd::transform_exl3_outputs(raw + static_cast<std::int64_t>(i) * block_side, exl3_svh(weight) + first, count,
                                   y + static_cast<std::int64_t>(r + i) * y_stride);
    }
  }
}

void cpu_exl3_linear(CpuContext& context, RowList x, const Linear& weight, bool round, const Tensor& y) {
  const auto rows = static_cast<std::int64_t>(x.size());
  const std::int64_t k = exl3::padded_side(weight.k);
  std::vector<float> transformed(static_cast<std::size_t>(rows * k));
  context.for_each_row(rows, 8 * k, [&](std::int64_t r) {
    simd::transform_exl3_inputs(x[static_cast<std::size_t>(r)], exl3_suh(weight), weight.k, transformed.data() + r * k);
  });
  const std::vector<const float*> pointers = row_pointers(transformed.data(), rows, k);
  const std::int64_t blocks = exl3::padded_side(weight.n) / block_side;
  context.pool.for_each_unit(blocks, unit_grain(block_side * k), [&](int worker, std::int64_t block) {
    const std::int64_t first = block * block_side;
    multiply_exl3_block(context.product(worker), pointers, weight, block, y.row<float>(0) + first, y.stride);
    if (!round) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      simd::round_bf16(y.row<float>(r) + first, std::min(block_side, weight.n - first));
    }
  });
}

}  // namespace tandem::gpu
