// Weighted sums of value rows: the second product of attention. Each output element is one chain over t, so any
// blocking gives its bits.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/attend.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "gpu/cpu/simd/lanes_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

constexpr int block_rows = 4;
constexpr int block_vectors = 2;

// `rows` output rows x `vectors` registers starting at element `first`, all values t.
template <int rows, int vectors>
HWY_INLINE void add_block(const WeightedSum& s, std::int64_t row, std::int64_t first) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  V sum[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    const V keep = hn::Set(d, s.keep[row + r]);
    const float* out = s.out + (row + r) * s.n + first;
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Mul(hn::LoadU(d, out + v * width), keep);
  }
  for (std::int64_t t = 0; t < s.count; ++t) {
    const float* value = s.v + t * s.n + first;
    V values[vectors];
    for (int v = 0; v < vectors; ++v) values[v] = hn::LoadU(d, value + v * width);
    for (int r = 0; r < rows; ++r) {
      const V p = hn::Set(d, s.p[(row + r) * s.p_stride + t]);
      for (int v = 0; v < vectors; ++v) sum[r][v] = fused(p, values[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    float* out = s.out + (row + r) * s.n + first;
    for (int v = 0; v < vectors; ++v) hn::StoreU(sum[r][v], d, out + v * width);
  }
}

template <int rows>
HWY_INLINE void add_rows(const WeightedSum& s, std::int64_t row) {
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(Floats()));
  std::int64_t i = 0;
  for (; i + block_vectors * width <= s.n; i += block_vectors * width) add_block<rows, block_vectors>(s, row, i);
  for (; i + width <= s.n; i += width) add_block<rows, 1>(s, row, i);
  for (; i < s.n; ++i) {
    for (int r = 0; r < rows; ++r) {
      float sum = s.out[(row + r) * s.n + i] * s.keep[row + r];
      for (std::int64_t t = 0; t < s.count; ++t) sum = std::fma(s.p[(row + r) * s.p_stride + t], s.v[t * s.n + i], sum);
      s.out[(row + r) * s.n + i] = sum;
    }
  }
}

void AddWeighted(const WeightedSum& s) {
  std::int64_t row = 0;
  for (; row + block_rows <= s.rows; row += block_rows) add_rows<block_rows>(s, row);
  for (; row < s.rows; ++row) add_rows<1>(s, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(AddWeighted);

void add_weighted(const WeightedSum& sum) {
  HWY_DYNAMIC_DISPATCH(AddWeighted)(sum);
}

}  // namespace tandem::gpu::simd
#endif
