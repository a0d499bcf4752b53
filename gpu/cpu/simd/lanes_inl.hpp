// Building blocks of the kernels, compiled once a target: the vector type, fused multiply-add on every target, e^x.
#if defined(TANDEM_GPU_CPU_SIMD_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_GPU_CPU_SIMD_LANES_INL
#undef TANDEM_GPU_CPU_SIMD_LANES_INL
#else
#define TANDEM_GPU_CPU_SIMD_LANES_INL
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "gpu/cpu/simd/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes; narrower targets take several steps for one group of 16.
using Floats = hn::CappedTag<float, lanes>;
using Bits = hn::RebindToUnsigned<Floats>;
using Ints = hn::RebindToSigned<Floats>;
using V = hn::Vec<Floats>;

// a * b + c with one rounding, on targets without the instruction too.
HWY_INLINE V fused(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  constexpr Floats d;
  HWY_ALIGN float fa[lanes], fb[lanes], fc[lanes];
  hn::Store(a, d, fa);
  hn::Store(b, d, fb);
  hn::Store(c, d, fc);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) fa[i] = std::fma(fa[i], fb[i], fc[i]);
  return hn::Load(d, fa);
#endif
}

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7 (error below 1e-9
// relative).
HWY_INLINE V exponential(V x) {
  constexpr Floats d;
  constexpr Ints di;
  const V low = hn::Set(d, -104.0F), high = hn::Set(d, 89.0F);
  const V bounded = hn::Min(hn::Max(x, low), high);
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504F)));
  V r = fused(n, hn::Set(d, -0.693145752F), bounded);
  r = fused(n, hn::Set(d, -1.42860677e-6F), r);
  V p = hn::Set(d, 1.0F / 5040);
  p = fused(p, r, hn::Set(d, 1.0F / 720));
  p = fused(p, r, hn::Set(d, 1.0F / 120));
  p = fused(p, r, hn::Set(d, 1.0F / 24));
  p = fused(p, r, hn::Set(d, 1.0F / 6));
  p = fused(p, r, hn::Set(d, 0.5F));
  p = fused(p, r, hn::Set(d, 1.0F));
  p = fused(p, r, hn::Set(d, 1.0F));
  // Two factors, so that subnormal results and 2^128 are reached without an exponent that does not exist.
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  V result = hn::Mul(hn::Mul(p, first), second);
  result = hn::IfThenElse(hn::Lt(x, low), hn::Zero(d), result);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// Rounds to bf16, ties to even; NaN stays NaN.
HWY_INLINE V rounded_bf16(V x) {
  constexpr Floats d;
  constexpr Bits du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::And(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFU))), hn::Set(du, 0xFFFF0000U));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::BitCast(d, rounded));
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#endif  // include guard
