// Element-by-element kernels on rows of f32. A ragged end goes through a padded vector, so every element sees the same
// instructions.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/rows.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "gpu/cpu/simd/lanes_inl.hpp"
#include "gpu/numeric/minifloat.hpp"
#include "gpu/numeric/quantise.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

// out[i] = f(in[0][i], in[1][i], ...). out may be one of the inputs.
template <int inputs, class Function>
HWY_INLINE void map(const float* const (&in)[inputs], std::int64_t n, float* out, const Function& f) {
  constexpr Floats d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(d));
  V values[inputs];
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    for (int a = 0; a < inputs; ++a) values[a] = hn::LoadU(d, in[a] + i);
    hn::StoreU(f(values), d, out + i);
  }
  if (i == n) return;
  HWY_ALIGN float tail[lanes];
  for (int a = 0; a < inputs; ++a) {
    std::fill_n(tail, lanes, 0.0F);
    std::copy_n(in[a] + i, n - i, tail);
    values[a] = hn::Load(d, tail);
  }
  hn::Store(f(values), d, tail);
  std::copy_n(tail, n - i, out + i);
}

void RoundBf16(float* x, std::int64_t n) {
  map<1>({x}, n, x, [](const V(&v)[1]) { return rounded_bf16(v[0]); });
}

void Exp(float* x, std::int64_t n) {
  map<1>({x}, n, x, [](const V(&v)[1]) { return exponential(v[0]); });
}

void ScaleBy(const float* x, float factor, const float* w, std::int64_t n, float* y) {
  const V f = hn::Set(Floats(), factor);
  map<2>({x, w}, n, y, [f](const V(&v)[2]) { return hn::Mul(hn::Mul(v[0], f), v[1]); });
}

void AddScaled(float a, const float* x, std::int64_t n, float* y) {
  const V f = hn::Set(Floats(), a);
  map<2>({x, y}, n, y, [f](const V(&v)[2]) { return fused(f, v[0], v[1]); });
}

void Scale(float a, const float* x, std::int64_t n, float* y) {
  const V f = hn::Set(Floats(), a);
  map<1>({x}, n, y, [f](const V(&v)[1]) { return hn::Mul(f, v[0]); });
}

void Add(const float* x, std::int64_t n, float* y) {
  map<2>({y, x}, n, y, [](const V(&v)[2]) { return hn::Add(v[0], v[1]); });
}

// min/max that keep a NaN operand: a broken row stays visibly broken.
HWY_INLINE V at_most(V x, V limit) {
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
}
HWY_INLINE V at_least(V x, V limit) {
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
}

void SwiGluRow(const SwiGlu& in, std::int64_t n, float* h) {
  constexpr Floats d;
  const V limit = hn::Set(d, in.limit), weight = hn::Set(d, in.weight), one = hn::Set(d, 1.0F);
  map<2>({in.gate, in.up}, n, h, [=](const V(&v)[2]) {
    const V gate = at_most(v[0], limit);
    const V up = at_least(at_most(v[1], limit), hn::Neg(limit));
    const V silu = hn::Div(gate, hn::Add(one, exponential(hn::Neg(gate))));
    return hn::Mul(hn::Mul(silu, up), weight);
  });
}

void PoolPairRow(const PairPool& in, std::int64_t n, float* z) {
  map<4>({in.ka, in.ga, in.kb, in.gb}, n, z, [](const V(&v)[4]) {
    const V most = hn::IfThenElse(hn::Gt(v[3], v[1]), v[3], v[1]);
    const V a = exponential(hn::Sub(v[1], most));
    const V b = exponential(hn::Sub(v[3], most));
    const V sum = hn::Add(a, b);
    return hn::Add(hn::Mul(v[0], hn::Div(a, sum)), hn::Mul(v[2], hn::Div(b, sum)));
  });
}

// Nearest e4m3 value of v, |v| <= 448: the same steps as round_to_e4m3.
HWY_INLINE V rounded_e4m3(V v) {
  constexpr Floats d;
  constexpr Bits du;
  const auto exponent = hn::And(hn::BitCast(du, v), hn::Set(du, f32_exponent_bits));
  const V power = hn::BitCast(d, hn::Max(exponent, hn::Set(du, 121U << 23)));
  const V magic = hn::Mul(power, hn::Set(d, 1.5F * (1 << 20)));
  return hn::CopySign(hn::Sub(hn::Add(v, magic), magic), v);
}

HWY_INLINE float largest_bits(const float* x) {
  constexpr Floats d;
  constexpr Ints di;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  auto most = hn::BitCast(di, hn::Set(d, 1e-4F));
  for (int i = 0; i < q8_group; i += width) most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most)));
}

void FakeQ8(float* x, std::int64_t n) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  const V top = hn::Set(d, e4m3_max), bottom = hn::Set(d, -e4m3_max);
  std::int64_t i = 0;
  for (; i + q8_group <= n; i += q8_group) {
    const float scale = e8m0_to_float(e8m0_ceil(largest_bits(x + i) * (1.0F / 448.0F)));
    const V back = hn::Set(d, scale), inverse = hn::Set(d, 1.0F / scale);
    for (std::int64_t j = i; j < i + q8_group; j += width) {
      const V scaled = at_least(at_most(hn::Mul(hn::LoadU(d, x + j), inverse), top), bottom);
      hn::StoreU(hn::Mul(rounded_e4m3(scaled), back), d, x + j);
    }
  }
  if (i == n) return;
  std::uint8_t codes[q8_group];
  const float scale = e8m0_to_float(quantise_q8({x + i, static_cast<std::size_t>(n - i)}, codes));
  for (std::int64_t j = i; j < n; ++j) x[j] = e4m3_to_float(codes[j - i]) * scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(RoundBf16);
HWY_EXPORT(Exp);
HWY_EXPORT(ScaleBy);
HWY_EXPORT(AddScaled);
HWY_EXPORT(Scale);
HWY_EXPORT(Add);
HWY_EXPORT(SwiGluRow);
HWY_EXPORT(PoolPairRow);
HWY_EXPORT(FakeQ8);

void round_bf16(float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(RoundBf16)(x, n);
}
void exp(float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(Exp)(x, n);
}
void scale_by(const float* x, float factor, const float* w, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(ScaleBy)(x, factor, w, n, y);
}
void add_scaled(float a, const float* x, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(a, x, n, y);
}
void scale(float a, const float* x, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(Scale)(a, x, n, y);
}
void add(const float* x, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(Add)(x, n, y);
}
void swiglu(const SwiGlu& in, std::int64_t n, float* h) {
  HWY_DYNAMIC_DISPATCH(SwiGluRow)(in, n, h);
}
void pool_pair(const PairPool& in, std::int64_t n, float* z) {
  HWY_DYNAMIC_DISPATCH(PoolPairRow)(in, n, z);
}
void fake_q8(float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(FakeQ8)(x, n);
}

}  // namespace tandem::gpu::simd
#endif
