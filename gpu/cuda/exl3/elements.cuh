// Rows of fp32, fp16 or bf16 read and written four values at a time; the element type is a launch argument.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu::cuda {

__device__ __forceinline__ float load_element(const Exl3Rows& rows, std::int64_t index) {
  if (rows.element == Exl3Element::f32) return static_cast<const float*>(rows.data)[index];
  if (rows.element == Exl3Element::f16) return __half2float(static_cast<const __half*>(rows.data)[index]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(rows.data)[index]);
}

__device__ __forceinline__ void store_element(const Exl3Rows& rows, std::int64_t index, float value) {
  if (rows.element == Exl3Element::f32) {
    static_cast<float*>(rows.data)[index] = rows.rounds ? round_to_bf16(value) : value;
  } else if (rows.element == Exl3Element::f16) {
    static_cast<__half*>(rows.data)[index] = __float2half_rn(value);
  } else {
    static_cast<__nv_bfloat16*>(rows.data)[index] = __float2bfloat16_rn(value);
  }
}

// True if columns column .. column + 3 exist and lie in one aligned vector.
__device__ __forceinline__ bool is_vector(const Exl3Rows& rows, int column) {
  return rows.stride % 4 == 0 && column + 4 <= rows.columns;
}

__device__ __forceinline__ std::uint32_t pair_bits(const Exl3Rows& rows, float low, float high) {
  if (rows.element == Exl3Element::f16) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ __forceinline__ float2 pair_values(const Exl3Rows& rows, std::uint32_t bits) {
  if (rows.element == Exl3Element::f16) return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}

// Columns column .. column + 3 of row `row`; those past the row's end are 0.
__device__ __forceinline__ void load_four(const Exl3Rows& rows, std::int64_t row, int column, float (&v)[4]) {
  const std::int64_t index = row * rows.stride + column;
  if (!is_vector(rows, column)) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = column + i < rows.columns ? load_element(rows, index + i) : 0.0f;
  } else if (rows.element == Exl3Element::f32) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(rows.data) + index);
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
  } else {
    const uint2 four = *reinterpret_cast<const uint2*>(static_cast<const __half*>(rows.data) + index);
    const float2 low = pair_values(rows, four.x), high = pair_values(rows, four.y);
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
  }
}

// store_four where is_vector holds; `index` is that of the first value.
__device__ __forceinline__ void store_vector(const Exl3Rows& rows, std::int64_t index, const float (&v)[4]) {
  if (rows.element == Exl3Element::f32) {
    float4 four = make_float4(v[0], v[1], v[2], v[3]);
    if (rows.rounds) {
      four = make_float4(round_to_bf16(v[0]), round_to_bf16(v[1]), round_to_bf16(v[2]), round_to_bf16(v[3]));
    }
    *reinterpret_cast<float4*>(static_cast<float*>(rows.data) + index) = four;
  } else {
    *reinterpret_cast<uint2*>(static_cast<__half*>(rows.data) + index) =
        make_uint2(pair_bits(rows, v[0], v[1]), pair_bits(rows, v[2], v[3]));
  }
}

__device__ __forceinline__ void store_four(const Exl3Rows& rows, std::int64_t row, int column, const float (&v)[4]) {
  const std::int64_t index = row * rows.stride + column;
  if (is_vector(rows, column)) return store_vector(rows, index, v);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i < rows.columns) store_element(rows, index + i, v[i]);
  }
}

// Columns column .. column + 3 of rows row, row + step, .., those whose distance from `row` is less than `left`. What
// is the same for all of them is asked once: for each row by itself that took almost as long as its transform.
template <int count>
__device__ __forceinline__ void store_fours(const Exl3Rows& rows, std::int64_t row, int step, int left, int column,
                                            const float (&v)[count][4]) {
  const auto store_vectors = [&](Exl3Element element) {
    Exl3Rows own = rows;
    own.element = element;  // known to the compiler
    std::int64_t index = row * own.stride + column;
#pragma unroll
    for (int i = 0; i < count; ++i, index += step * own.stride) {
      if (i * step < left) store_vector(own, index, v[i]);
    }
  };
  if (!is_vector(rows, column)) {
#pragma unroll 1
    for (int i = 0; i < count && i * step < left; ++i) {  // seldom: one copy of the code serves all rows
      float own[4] = {};
#pragma unroll
      for (int k = 0; k < 4 * count; ++k) own[k % 4] = k / 4 <= i ? v[k / 4][k % 4] : own[k % 4];
      store_four(rows, row + i * step, column, own);
    }
  } else if (rows.element == Exl3Element::bf16) {
    store_vectors(Exl3Element::bf16);
  } else if (rows.element == Exl3Element::f32) {
    store_vectors(Exl3Element::f32);
  } else {
    store_vectors(Exl3Element::f16);
  }
}

// Four fp16 scales at `column` (a multiple of 4): the load and the conversion to fp32 apart, so that it can be early.
__device__ __forceinline__ uint2 load_scales(const void* scales, int column) {
  return __ldg(reinterpret_cast<const uint2*>(static_cast<const __half*>(scales) + column));
}

__device__ __forceinline__ void scale_values(uint2 bits, float (&v)[4]) {
  const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
  const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
  v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
}

}  // namespace tandem::gpu::cuda
