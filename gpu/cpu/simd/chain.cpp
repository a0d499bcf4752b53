// Chains of fused products, sixteen outputs side by side: lanes are outputs, so every output is one chain over k.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/chain.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "gpu/cpu/simd/lanes_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

constexpr int chain_rows = 4;
constexpr std::int64_t chain_step = 64;  // inputs whose weights are turned at a time

// `rows` rows over `count` inputs from `k` on; w holds them as [count, lanes].
template <int rows>
HWY_INLINE void add_products(const Chain& c, std::int64_t row, std::int64_t k, std::int64_t count, const float* w) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  for (int part = 0; part < lanes; part += width) {
    V sum[rows];
    for (int r = 0; r < rows; ++r) sum[r] = hn::LoadU(d, c.sum + (row + r) * lanes + part);
    for (std::int64_t i = 0; i < count; ++i) {
      const V weights = hn::LoadU(d, w + i * lanes + part);
      for (int r = 0; r < rows; ++r) sum[r] = fused(hn::Set(d, c.x[row + r][c.x_first + k + i]), weights, sum[r]);
    }
    for (int r = 0; r < rows; ++r) hn::StoreU(sum[r], d, c.sum + (row + r) * lanes + part);
  }
}

void ContinueChains(const Chain& c) {
  HWY_ALIGN float turned[chain_step * lanes] = {};
  for (std::int64_t k = 0; k < c.k; k += chain_step) {
    const std::int64_t count = std::min(chain_step, c.k - k);
    for (std::int64_t col = 0; col < c.cols; ++col) {
      for (std::int64_t i = 0; i < count; ++i) turned[i * lanes + col] = c.w[col * c.w_stride + k + i];
    }
    std::int64_t row = 0;
    for (; row + chain_rows <= c.rows; row += chain_rows) add_products<chain_rows>(c, row, k, count, turned);
    for (; row < c.rows; ++row) add_products<1>(c, row, k, count, turned);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(ContinueChains);

void continue_chains(const Chain& chain) {
  HWY_DYNAMIC_DISPATCH(ContinueChains)(chain);
}

}  // namespace tandem::gpu::simd
#endif
