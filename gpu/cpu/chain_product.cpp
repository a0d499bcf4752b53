// Blocks of K outside, slices inside: a block that reaches over the end of a slice continues its chain in the next one.
#include "gpu/cpu/chain_product.hpp"

#include <algorithm>

#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

using simd::lanes;

constexpr std::int64_t longest_block = 384;
constexpr std::int64_t block_step = 16;
constexpr std::int64_t scale_group = 32;  // weights are decoded from a multiple of this on

static_assert(panel_cols == lanes && longest_block + scale_group <= panel_depth);

// Inputs [first, first + count) of a block, counted in the whole matrix.
struct Inputs {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Continues the chains of all rows over the part of `inputs` that lies in one slice. `slice_first` is where the slice
// begins in the whole matrix.
void continue_chain(ProductScratch& scratch, RowList x, const PanelRange& range, std::int64_t slice_first,
                    Inputs inputs) {
  const std::int64_t first = std::max(inputs.first, slice_first);
  const std::int64_t last = std::min(inputs.first + inputs.count, slice_first + range.weight->k);
  if (first >= last) return;
  const std::int64_t decoded_first = (first - slice_first) / scale_group * scale_group;
  const std::int64_t skipped = first - slice_first - decoded_first;
  decode_weights(range, decoded_first, skipped + last - first, scratch.panel.data(), panel_depth);
  simd::Chain chain;
  chain.x = x.data();
  chain.x_first = first;
  chain.w = scratch.panel.data() + skipped;
  chain.w_stride = panel_depth;
  chain.rows = static_cast<std::int64_t>(x.size());
  chain.cols = range.count;
  chain.k = last - first;
  chain.sum = scratch.acc.data();
  simd::continue_chains(chain);
}

void multiply_rows(ProductScratch& scratch, RowList x, const ChainRange& range, float* y, std::int64_t y_stride) {
  std::int64_t k = 0;
  for (const Linear& slice : range.slices) k += slice.k;
  const auto sums = static_cast<std::int64_t>(x.size()) * lanes;
  for (std::int64_t at = 0; at < k;) {
    const Inputs inputs{at, chain_block(k - at)};
    std::fill_n(scratch.acc.begin(), sums, 0.0F);
    std::int64_t slice_first = 0;
    for (const Linear& slice : range.slices) {
      continue_chain(scratch, x, {&slice, range.first, range.count}, slice_first, inputs);
      slice_first += slice.k;
    }
    for (std::size_t r = 0; r < x.size(); ++r) {
      const float* sum = scratch.acc.data() + r * lanes;
      float* out = y + static_cast<std::int64_t>(r) * y_stride;
      for (std::int64_t c = 0; c < range.count; ++c) out[c] = at == 0 ? sum[c] : out[c] + sum[c];
    }
    at += inputs.count;
  }
}

}  // namespace

std::int64_t chain_block(std::int64_t left) noexcept {
  if (left >= 2 * longest_block) return longest_block;
  if (left <= longest_block) return left;
  return (left / 2 + block_step - 1) / block_step * block_step;
}

void multiply_chain(ProductScratch& scratch, RowList x, const ChainRange& range, float* y, std::int64_t y_stride) {
  for (std::size_t r = 0; r < x.size(); r += block_rows) {
    const RowList rows = x.subspan(r, std::min<std::size_t>(block_rows, x.size() - r));
    multiply_rows(scratch, rows, range, y + static_cast<std::int64_t>(r) * y_stride, y_stride);
  }
}

}  // namespace tandem::gpu
