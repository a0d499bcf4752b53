// Products of activation rows with one output of a compact weight: the inner loop of every linear.
//
// Four neighbouring threads share an output; thread q holds lanes 4q .. 4q + 3 of the sum (lanes.cuh) for R rows, so it
// reads 4 consecutive weights and activations at a time and a warp reads 8 outputs side by side. A weight is decoded
// once for R rows. Decoding is exact; the order of summation is a function of K alone.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/matrix.hpp"

namespace tandem::gpu::cuda {

inline constexpr int quarter = 4;  // lanes and weights of one thread at a time; threads of one output

__device__ inline float2 decode_e4m3_pair(std::uint16_t codes) {
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
  return __half22float2(__half2(halves));
}

// e2m1 moved into an FP16 reads 2^-14 times its value.
__device__ inline float decode_e2m1(unsigned nibble) {
  const auto bits = static_cast<unsigned short>((nibble & 7U) << 9 | (nibble & 8U) << 12);
  return __half2float(__ushort_as_half(bits)) * 16384.0F;
}

// Weights k .. k + 3 of output `out`; k is a multiple of 4 and the row is aligned for one load.
template <WeightFormat format>
__device__ float4 load_weights(const Matrix& w, std::int64_t out, std::int64_t k) {
  const std::int64_t at = out * w.k + k;
  if constexpr (format == WeightFormat::f32) {
    return *reinterpret_cast<const float4*>(static_cast<const float*>(w.codes) + at);
  } else if constexpr (format == WeightFormat::bf16) {
    const uint2 raw = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(w.codes) + at);
    return {__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xFFFF0000U), __uint_as_float(raw.y << 16),
            __uint_as_float(raw.y & 0xFFFF0000U)};
  } else if constexpr (format == WeightFormat::fp8_block32) {
    const auto raw = *reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint8_t*>(w.codes) + at);
    const float s = e8m0_to_float(w.scales[out / 32 * w.scale_cols + k / 32]);
    const float2 low = decode_e4m3_pair(static_cast<std::uint16_t>(raw));
    const float2 high = decode_e4m3_pair(static_cast<std::uint16_t>(raw >> 16));
    return {low.x * s, low.y * s, high.x * s, high.y * s};
  } else {
    const auto raw = *reinterpret_cast<const std::uint16_t*>(static_cast<const std::uint8_t*>(w.codes) + at / 2);
    const float s = e8m0_to_float(w.scales[out * w.scale_cols + k / 32]);
    return {decode_e2m1(raw) * s, decode_e2m1(raw >> 4) * s, decode_e2m1(raw >> 8) * s, decode_e2m1(raw >> 12) * s};
  }
}

// Weight k of output `out`, wherever it lies.
template <WeightFormat format>
__device__ float load_weight(const Matrix& w, std::int64_t out, std::int64_t k) {
  const std::int64_t at = out * w.k + k;
  if constexpr (format == WeightFormat::f32) {
    return static_cast<const float*>(w.codes)[at];
  } else if constexpr (format == WeightFormat::bf16) {
    return bf16_to_float(static_cast<const std::uint16_t*>(w.codes)[at]);
  } else if constexpr (format == WeightFormat::fp8_block32) {
    const std::uint8_t code = static_cast<const std::uint8_t*>(w.codes)[at];
    return decode_e4m3_pair(code).x * e8m0_to_float(w.scales[out / 32 * w.scale_cols + k / 32]);
  } else {
    const std::uint8_t pair = static_cast<const std::uint8_t*>(w.codes)[at / 2];
    return decode_e2m1(at % 2 == 0 ? pair : pair >> 4) * e8m0_to_float(w.scales[out * w.scale_cols + k / 32]);
  }
}

// Sum over the lanes of the four threads of an output; all threads of the warp take part.
__device__ inline float add_quarters(const float (&sum)[quarter]) {
  float lane[quarter];
  for (int i = 0; i < quarter; ++i) lane[i] = sum[i] + __shfl_xor_sync(full_warp, sum[i], 2);
  for (int i = 0; i < quarter; ++i) lane[i] += __shfl_xor_sync(full_warp, lane[i], 1);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

template <WeightFormat format, int rows>
__device__ void add_aligned(const float* const (&x)[rows], const Matrix& w, std::int64_t out,
                            float (&sum)[rows][quarter]) {
#pragma unroll 4
  for (std::int64_t k = threadIdx.x % quarter * quarter; k < w.k; k += lanes) {
    const float4 weight = load_weights<format>(w, out, k);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float4 value = *reinterpret_cast<const float4*>(x[r] + k);
      sum[r][0] = fmaf(value.x, weight.x, sum[r][0]);
      sum[r][1] = fmaf(value.y, weight.y, sum[r][1]);
      sum[r][2] = fmaf(value.z, weight.z, sum[r][2]);
      sum[r][3] = fmaf(value.w, weight.w, sum[r][3]);
    }
  }
}

template <WeightFormat format, int rows>
__device__ void add_ragged(const float* const (&x)[rows], const Matrix& w, std::int64_t out,
                           float (&sum)[rows][quarter]) {
  for (std::int64_t first = threadIdx.x % quarter * quarter; first < w.k; first += lanes) {
#pragma unroll
    for (int i = 0; i < quarter; ++i) {
      if (first + i >= w.k) continue;
      const float weight = load_weight<format>(w, out, first + i);
#pragma unroll
      for (int r = 0; r < rows; ++r) sum[r][i] = fmaf(x[r][first + i], weight, sum[r][i]);
    }
  }
}

// y[r] = x[r] . w[out] for R rows, in all four threads of the output; all threads of the warp take part.
template <WeightFormat format, int rows>
__device__ void multiply_rows(const float* const (&x)[rows], const Matrix& w, std::int64_t out, float (&y)[rows]) {
  float sum[rows][quarter] = {};
  if (w.is_aligned) {
    add_aligned<format, rows>(x, w, out, sum);
  } else {
    add_ragged<format, rows>(x, w, out, sum);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) y[r] = add_quarters(sum[r]);
}

}  // namespace tandem::gpu::cuda
