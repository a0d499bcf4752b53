// The Hadamard transforms around a product with EXL3 weights.
//
// The seven stages run in the order 16, 32, 64, 8, 4, 2, 1 on every instruction set: the first three go over whole
// groups of 16 numbers, the others stay inside a group. Sums are exact functions of their two operands, so the register
// width changes nothing.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/exl3_transform.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "gpu/cpu/exl3_kernels.hpp"
#include "gpu/cpu/simd/lanes_inl.hpp"
#include "gpu/exl3/hadamard.hpp"
#include "gpu/numeric/bf16.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

constexpr auto side = exl3::block_side;
constexpr auto normaliser = static_cast<float>(exl3::hadamard_scale);

// Butterflies over pairs `distance` apart, 16 or more.
HWY_INLINE void far_stage(float* x, std::int64_t distance) {
  constexpr Floats d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (std::int64_t first = 0; first < side; first += 2 * distance) {
    for (std::int64_t i = first; i < first + distance; i += width) {
      const V a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + distance);
      hn::StoreU(hn::Add(a, b), d, x + i);
      hn::StoreU(hn::Sub(a, b), d, x + i + distance);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
using Four = hn::Full128<float>;
using V4 = hn::Vec<Four>;

HWY_INLINE void butterfly(V4& a, V4& b) {
  const V4 sum = hn::Add(a, b);
  b = hn::Sub(a, b);
  a = sum;
}

// The last two stages inside four numbers, then the scaling.
HWY_INLINE V4 near_stages(V4 v) {
  constexpr Four d;
  constexpr hn::Full128<std::uint32_t> du;
  HWY_ALIGN static constexpr std::uint32_t upper_pair[4] = {0, 0, 0x80000000U, 0x80000000U};
  HWY_ALIGN static constexpr std::uint32_t odd[4] = {0, 0x80000000U, 0, 0x80000000U};
  v = hn::Add(hn::Shuffle1032(v), hn::Xor(v, hn::BitCast(d, hn::Load(du, upper_pair))));
  v = hn::Add(hn::Shuffle2301(v), hn::Xor(v, hn::BitCast(d, hn::Load(du, odd))));
  return hn::Mul(v, hn::Set(d, normaliser));
}

HWY_INLINE void group_stages(float* x) {
  constexpr Four d;
  V4 v0 = hn::LoadU(d, x), v1 = hn::LoadU(d, x + 4), v2 = hn::LoadU(d, x + 8), v3 = hn::LoadU(d, x + 12);
  butterfly(v0, v2);
  butterfly(v1, v3);
  butterfly(v0, v1);
  butterfly(v2, v3);
  hn::StoreU(near_stages(v0), d, x);
  hn::StoreU(near_stages(v1), d, x + 4);
  hn::StoreU(near_stages(v2), d, x + 8);
  hn::StoreU(near_stages(v3), d, x + 12);
}
#else
HWY_INLINE void group_stages(float* x) {
  for (int distance = 8; distance > 0; distance /= 2) {
    for (int i = 0; i < 16; ++i) {
      if ((i & distance) != 0) continue;
      const float sum = x[i] + x[i + distance], difference = x[i] - x[i + distance];
      x[i] = sum;
      x[i + distance] = difference;
    }
  }
  for (int i = 0; i < 16; ++i) x[i] *= normaliser;
}
#endif

HWY_INLINE void transform(float* x) {
  for (std::int64_t distance = 16; distance < side; distance *= 2) far_stage(x, distance);
  for (std::int64_t i = 0; i < side; i += 16) group_stages(x + i);
}

// out[i] = x[i] * scale[i]; plain code that the compiler vectorises for each target.
HWY_INLINE void multiply(const float* x, const std::uint16_t* scale, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * f16_to_float(scale[i]);
}

void TransformInputs(const float* x, const std::uint16_t* suh, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += side) {
    const std::int64_t count = std::min(side, n - i);
    multiply(x + i, suh + i, count, out + i);
    std::fill(out + i + count, out + i + side, 0.0F);
    transform(out + i);
  }
}

void TransformOutputs(float* raw, const std::uint16_t* svh, std::int64_t n, float* y) {
  transform(raw);
  multiply(raw, svh, n, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(TransformInputs);
HWY_EXPORT(TransformOutputs);

void transform_exl3_inputs(const float* x, const std::uint16_t* suh, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(TransformInputs)(x, suh, n, out);
}
void transform_exl3_outputs(float* raw, const std::uint16_t* svh, std::int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(TransformOutputs)(raw, svh, n, y);
}

}  // namespace tandem::gpu::simd
#endif
