// Weights and records to f32: exact, whole vectors for full groups, scalar code for a ragged end.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/decode.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "gpu/cpu/simd/lanes_inl.hpp"
#include "gpu/numeric/bf16.hpp"
#include "gpu/numeric/minifloat.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

using Bytes = hn::Rebind<std::uint8_t, Floats>;
using SignedBytes = hn::Rebind<std::int8_t, Floats>;
using Words = hn::Rebind<std::uint16_t, Floats>;
using SignedWords = hn::Rebind<std::int16_t, Floats>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;

// Weights are read a few hundred bytes of a row at a time, several rows in turn: too short for the processor to see a
// stream. Asking this far ahead in the row covers the next panel; beyond the end of the weight it is harmless.
constexpr std::int64_t ahead_bytes = 1024;

HWY_INLINE void prefetch(const void* at) {
  hwy::Prefetch(static_cast<const std::uint8_t*>(at) + ahead_bytes);
}

void DecodeBf16(const std::uint16_t* codes, std::int64_t n, float* out) {
  constexpr Floats d;
  constexpr Bits du;
  constexpr Words dw;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    if (i % 32 == 0) prefetch(codes + i);
    const auto wide = hn::PromoteTo(du, hn::LoadU(dw, codes + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(wide)), d, out + i);
  }
  for (; i < n; ++i) out[i] = bf16_to_float(codes[i]);
}

// e4m3 moved into an FP16 reads 2^-8 times its value, subnormals included, and FP16 to FP32 is one exact instruction;
// the missing 2^8 is part of `scale`. NaN codes become FP16 NaNs.
HWY_INLINE V decode_e4m3(const std::uint8_t* codes, V scale) {
  constexpr Floats d;
  constexpr Bytes d8;
  constexpr Words dw;
  constexpr SignedWords ds;
  constexpr Halves dh;
  const auto high = hn::ShiftLeft<8>(hn::PromoteTo(dw, hn::LoadU(d8, codes)));
  const auto moved = hn::And(hn::BitCast(dw, hn::ShiftRight<1>(hn::BitCast(ds, high))), hn::Set(dw, 0xBF80));
  const auto magnitude = hn::And(moved, hn::Set(dw, 0x3F80));
  const auto half = hn::IfThenElse(hn::Eq(magnitude, hn::Set(dw, 0x3F80)), hn::Set(dw, 0x7E00), moved);
  return hn::Mul(hn::PromoteTo(d, hn::BitCast(dh, half)), scale);
}

void DecodeFp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* out) {
  constexpr Floats d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    if (i % 64 == 0) prefetch(codes + i);
    const V scale = hn::Set(d, e8m0_to_float(scales[i / 32]) * 256.0F);
    for (std::int64_t j = i; j < i + 32; j += width) hn::StoreU(decode_e4m3(codes + j, scale), d, out + j);
  }
  for (; i < n; ++i) out[i] = e4m3_to_float(codes[i]) * e8m0_to_float(scales[i / 32]);
}

HWY_ALIGN constexpr std::int8_t doubled_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 32 nibbles to their doubled values as int8 in `doubled`.
HWY_INLINE void unpack_nibbles(const std::uint8_t* nibbles, std::int8_t* doubled) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 32; ++i) doubled[i] = doubled_e2m1[(nibbles[i / 2] >> (4 * (i % 2))) & 15];
#else
  constexpr hn::Full128<std::uint8_t> d8;
  const auto table = hn::Load(d8, reinterpret_cast<const std::uint8_t*>(doubled_e2m1));
  const auto packed = hn::LoadU(d8, nibbles);
  const auto low = hn::TableLookupBytes(table, hn::And(packed, hn::Set(d8, 15)));
  const auto high = hn::TableLookupBytes(table, hn::ShiftRight<4>(packed));
  auto* bytes = reinterpret_cast<std::uint8_t*>(doubled);
  hn::Store(hn::InterleaveLower(d8, low, high), d8, bytes);
  hn::Store(hn::InterleaveUpper(d8, low, high), d8, bytes + 16);
#endif
}

HWY_INLINE V scaled_bytes(const std::int8_t* doubled, V half_scale) {
  constexpr Floats d;
  constexpr Ints di;
  constexpr SignedBytes d8;
  return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::Load(d8, doubled))), half_scale);
}

float nibble_value(const std::uint8_t* nibbles, std::int64_t i) {
  return e2m1_to_float(static_cast<std::uint8_t>(i % 2 == 0 ? nibbles[i / 2] & 15U : nibbles[i / 2] >> 4U));
}

void DecodeFp4(const std::uint8_t* nibbles, const std::uint8_t* scales, std::int64_t n, float* out) {
  constexpr Floats d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(d));
  HWY_ALIGN std::int8_t doubled[32];
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    if (i % 128 == 0) prefetch(nibbles + i / 2);
    unpack_nibbles(nibbles + i / 2, doubled);
    const V half_scale = hn::Set(d, e8m0_to_float(scales[i / 32]) * 0.5F);
    for (std::int64_t j = 0; j < 32; j += width) hn::StoreU(scaled_bytes(doubled + j, half_scale), d, out + i + j);
  }
  for (; i < n; ++i) out[i] = nibble_value(nibbles, i) * e8m0_to_float(scales[i / 32]);
}

void DecodeN4(const std::uint8_t* nibbles, const std::uint8_t* scales, std::int64_t n, float* out) {
  constexpr Floats d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(d));
  HWY_ALIGN std::int8_t doubled[32];
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    unpack_nibbles(nibbles + i / 2, doubled);
    for (std::int64_t j = 0; j < 32; j += width) {
      const V half_scale = hn::Set(d, e4m3_to_float(scales[(i + j) / 16]) * 0.5F);
      hn::StoreU(scaled_bytes(doubled + j, half_scale), d, out + i + j);
    }
  }
  for (; i < n; ++i) out[i] = nibble_value(nibbles, i) * e4m3_to_float(scales[i / 16]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(DecodeBf16);
HWY_EXPORT(DecodeFp8);
HWY_EXPORT(DecodeFp4);
HWY_EXPORT(DecodeN4);

void decode_bf16(const std::uint16_t* codes, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(DecodeBf16)(codes, n, out);
}
void decode_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(DecodeFp8)(codes, scales, n, out);
}
void decode_fp4(const std::uint8_t* nibbles, const std::uint8_t* scales, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(DecodeFp4)(nibbles, scales, n, out);
}
void decode_n4(const std::uint8_t* nibbles, const std::uint8_t* scales, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(DecodeN4)(nibbles, scales, n, out);
}

}  // namespace tandem::gpu::simd
#endif
