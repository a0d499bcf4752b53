// Records in device code: the quantised groups of a warp and the values of a record (formats: gpu/kv_record.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/weight_rows.cuh"
#include "gpu/kv_record.hpp"

namespace tandem::gpu::cuda {

// Values of one quantisation group of a format; 1 where there are none.
__host__ __device__ constexpr int record_group(RecordFormat format) {
  return format == RecordFormat::n4 ? 16 : 32;
}

// Bytes of the codes of n values; the scales follow.
__host__ __device__ constexpr std::int64_t code_bytes(RecordFormat format, std::int64_t n) {
  if (format == RecordFormat::f32) return 4 * n;
  return format == RecordFormat::w8 ? n : n / 2;
}

__host__ __device__ constexpr std::int64_t bytes_of_record(RecordFormat format, std::int64_t n) {
  if (format == RecordFormat::f32) return 4 * n;
  return code_bytes(format, n) + (n + record_group(format) - 1) / record_group(format);
}

// Value i of a record of n values.
template <RecordFormat format>
__device__ float record_value(const std::byte* record, std::int64_t n, std::int64_t i) {
  if constexpr (format == RecordFormat::f32) {
    return reinterpret_cast<const float*>(record)[i];
  } else {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(record);
    const std::uint8_t scale = codes[code_bytes(format, n) + i / record_group(format)];
    if constexpr (format == RecordFormat::w8) {
      return decode_e4m3_pair(codes[i]).x * e8m0_to_float(scale);
    } else {
      const float value = decode_e2m1(i % 2 == 0 ? codes[i / 2] : codes[i / 2] >> 4);
      return value * (format == RecordFormat::n4 ? decode_e4m3_pair(scale).x : e8m0_to_float(scale));
    }
  }
}

// The quantised group that `width` neighbouring threads hold one value each of: its scale byte and the thread's code.
struct Code {
  std::uint8_t scale;
  std::uint8_t code;
  float value;  // what the code stands for
};

// Largest magnitude of a group, as bits, at least `floor`; all threads of the warp take part.
template <int width>
__device__ float largest_magnitude(float value, float floor) {
  unsigned largest = __float_as_uint(value) & ~f32_sign_bit;
  for (int step = width / 2; step > 0; step /= 2) {
    const unsigned other = __shfl_xor_sync(full_warp, largest, step);
    largest = largest < other ? other : largest;
  }
  const unsigned least = __float_as_uint(floor);
  return __uint_as_float(largest < least ? least : largest);
}

// Rounds as gpu/numeric/quantise.hpp says.
template <RecordFormat format>
__device__ Code quantise(float value) {
  if constexpr (format == RecordFormat::w8) {
    const std::uint8_t byte = e8m0_ceil(largest_magnitude<32>(value, 1e-4F) * (1.0F / 448.0F));
    const float scale = e8m0_to_float(byte), q = round_to_e4m3(value / scale);
    return {byte, e4m3_code(q), q * scale};
  } else if constexpr (format == RecordFormat::x4) {
    const std::uint8_t byte = e8m0_ceil(largest_magnitude<32>(value, 6 * 0x1p-126F) * (1.0F / 6.0F));
    const float scale = e8m0_to_float(byte);
    const std::uint8_t code = e2m1_code(round_to_e2m1(value / scale));
    return {byte, code, decode_e2m1(code) * scale};
  } else {
    const float amax = largest_magnitude<16>(value, 6 * 0x1p-9F);
    const bool is_broken = (__float_as_uint(amax) & f32_exponent_bits) == f32_exponent_bits;
    const float scale = is_broken ? __uint_as_float(0x7FC00000U) : round_to_e4m3(amax / 6.0F);
    const std::uint8_t code = e2m1_code(round_to_e2m1(value / scale));
    return {e4m3_code(scale), code, decode_e2m1(code) * scale};
  }
}

// Writes a row of n values as a record; all threads of the block take part, whole warps of them.
template <RecordFormat format>
__device__ void write_record(const float* x, std::int64_t n, std::byte* record) {
  auto* codes = reinterpret_cast<std::uint8_t*>(record);
  std::uint8_t* scales = codes + code_bytes(format, n);
  constexpr int group = record_group(format);
  for (std::int64_t i = threadIdx.x; i < (n + 31) / 32 * 32; i += blockDim.x) {
    const Code code = quantise<format>(i < n ? x[i] : 0.0F);
    const unsigned next = __shfl_down_sync(full_warp, static_cast<unsigned>(code.code), 1);
    if (i >= n) continue;
    if (i % group == 0) scales[i / group] = code.scale;
    if (format == RecordFormat::w8) codes[i] = code.code;
    if (format != RecordFormat::w8 && i % 2 == 0) codes[i / 2] = static_cast<std::uint8_t>(code.code | next << 4);
  }
}

}  // namespace tandem::gpu::cuda
