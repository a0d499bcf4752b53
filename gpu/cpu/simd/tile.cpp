// Products of decoded weights with rows, and the dot products of single rows. All share one order of summation
// (kernels.hpp).
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/tile.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "gpu/cpu/simd/lanes_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

#undef TANDEM_WIDE_TILE

// Accumulators that fit the registers: 6 x 4 with 32 registers, 3 x 4 with 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define TANDEM_WIDE_TILE 1
constexpr int tile_rows = 6;
#else
#define TANDEM_WIDE_TILE 0
constexpr int tile_rows = 3;
#endif

// One block of `rows` x 4 accumulators over all of k. A target with narrower registers runs over k once for each part
// of the lanes.
template <int rows>
HWY_INLINE void multiply_block(const Tile& t, std::int64_t row, std::int64_t col) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  const float* x[rows];
  for (int r = 0; r < rows; ++r) x[r] = t.x[row + r] + t.x_first;
  const float* w[tile_cols];
  for (int c = 0; c < tile_cols; ++c) w[c] = t.w + (col + c) * t.w_stride;
  for (int part = 0; part < lanes; part += width) {
    V sum[rows][tile_cols];
    float* acc = t.acc + (row * t.acc_stride + col) * lanes + part;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < tile_cols; ++c) {
        sum[r][c] = t.first ? hn::Zero(d) : hn::LoadU(d, acc + (r * t.acc_stride + c) * lanes);
      }
    }
    for (std::int64_t k = part; k < t.k; k += lanes) {
      V weights[tile_cols];
      for (int c = 0; c < tile_cols; ++c) weights[c] = hn::LoadU(d, w[c] + k);
      for (int r = 0; r < rows; ++r) {
        const V value = hn::LoadU(d, x[r] + k);
        for (int c = 0; c < tile_cols; ++c) sum[r][c] = fused(value, weights[c], sum[r][c]);
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < tile_cols; ++c) hn::StoreU(sum[r][c], d, acc + (r * t.acc_stride + c) * lanes);
    }
  }
}

void MultiplyRows(const Tile& t, std::int64_t row, std::int64_t count) {
  for (std::int64_t col = 0; col < t.cols; col += tile_cols) {
    switch (count) {
      case 1:
        multiply_block<1>(t, row, col);
        break;
      case 2:
        multiply_block<2>(t, row, col);
        break;
      case 3:
        multiply_block<3>(t, row, col);
        break;
#if TANDEM_WIDE_TILE
      case 4:
        multiply_block<4>(t, row, col);
        break;
      case 5:
        multiply_block<5>(t, row, col);
        break;
      case 6:
        multiply_block<6>(t, row, col);
        break;
#endif
      default:
        break;
    }
  }
}

void MultiplyTile(const Tile& t) {
  for (std::int64_t row = 0; row < t.rows; row += tile_rows) {
    const std::int64_t left = t.rows - row;
    MultiplyRows(t, row, left < tile_rows ? left : tile_rows);
  }
}

// Sums term(i) over n values: `vector(i)` gives width terms, `scalar(i)` one of the tail.
template <class Fold, class FoldTail>
HWY_INLINE float reduce(std::int64_t n, const Fold& fold, const FoldTail& fold_tail) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  HWY_ALIGN float acc[lanes];
  const std::int64_t whole = n - n % lanes;
  for (int part = 0; part < lanes; part += width) {
    V sum = hn::Zero(d);
    for (std::int64_t i = part; i < whole; i += lanes) sum = fold(sum, i);
    hn::Store(sum, d, acc + part);
  }
  for (std::int64_t i = whole; i < n; ++i) acc[i - whole] = fold_tail(acc[i - whole], i);
  return add_lanes(acc);
}

float Dot(const float* a, const float* b, std::int64_t n) {
  constexpr Floats d;
  return reduce(
      n, [=](V sum, std::int64_t i) { return fused(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum); },
      [=](float sum, std::int64_t i) { return std::fma(a[i], b[i], sum); });
}

float Dot3(const float* a, const float* b, const float* c, std::int64_t n) {
  constexpr Floats d;
  return reduce(
      n,
      [=](V sum, std::int64_t i) {
        return fused(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), hn::LoadU(d, c + i), sum);
      },
      [=](float sum, std::int64_t i) { return std::fma(a[i] * b[i], c[i], sum); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(MultiplyTile);
HWY_EXPORT(Dot);
HWY_EXPORT(Dot3);

void multiply_tile(const Tile& tile) {
  HWY_DYNAMIC_DISPATCH(MultiplyTile)(tile);
}
float dot(const float* a, const float* b, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(Dot)(a, b, n);
}
float sum_of_squares(const float* x, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(Dot)(x, x, n);
}
float dot3(const float* a, const float* b, const float* c, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(Dot3)(a, b, c, n);
}

float add_lanes(const float* acc) noexcept {
  float sum[lanes / 2];
  for (int i = 0; i < 8; ++i) sum[i] = acc[i] + acc[i + 8];
  for (int i = 0; i < 4; ++i) sum[i] += sum[i + 4];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

}  // namespace tandem::gpu::simd
#endif
