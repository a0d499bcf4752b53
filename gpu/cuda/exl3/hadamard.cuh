// The 128-wide Hadamard transform of one warp: lane l holds elements 4l .. 4l+3, natural (Sylvester) order, unscaled.
//
// Seven butterfly stages (a, b) -> (a + b, a - b): two inside the lane, five between lanes, always in this order.
#pragma once

namespace tandem::gpu::cuda {

inline constexpr float hadamard_scale = 0.08838834764831845f;  // 1 / sqrt(128)

// The two stages inside a thread that holds four neighbours.
__device__ __forceinline__ void hadamard_4(float (&v)[4]) {
  const float a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = v[2] - v[3];
  v[0] = a + c;
  v[1] = b + d;
  v[2] = a - c;
  v[3] = b - d;
}

// The five stages between lanes, of `count` values a lane.
template <int count>
__device__ __forceinline__ void hadamard_lanes(float (&v)[count], int lane) {
#pragma unroll
  for (int width = 1; width < 32; width *= 2) {
    const float sign = (lane & width) != 0 ? -1.0f : 1.0f;  // a product with it is exact: one rounding
#pragma unroll
    for (float& x : v) x = fmaf(sign, x, __shfl_xor_sync(0xffffffffu, x, width));
  }
}

__device__ __forceinline__ void hadamard_128(float (&v)[4], int lane) {
  hadamard_4(v);
  hadamard_lanes(v, lane);
}

// Several rows together, whose exchanges need not wait for each other.
template <int rows>
__device__ __forceinline__ void hadamard_128(float (&v)[rows][4], int lane) {
#pragma unroll
  for (float(&row)[4] : v) hadamard_4(row);
  hadamard_lanes(reinterpret_cast<float(&)[4 * rows]>(v), lane);
}

}  // namespace tandem::gpu::cuda
