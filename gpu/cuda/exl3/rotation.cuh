// Slices of rows into the rotated domain of a matrix: a = fp16(s * H128(x o suh) / sqrt(128)), undo = 1 / s.
//
// A slice is the part of a row that one block of a cluster multiplies. Its scale s is the power of two that brings its
// largest magnitude into [2^14, 2^15): exact, so it costs no precision, and no finite row can overflow fp16. Row,
// matrix and slice alone decide it. A warp transforms a Hadamard block at a time; all warps of a block take part.
#pragma once

#include "gpu/cuda/exl3/elements.cuh"
#include "gpu/cuda/exl3/hadamard.cuh"

namespace tandem::gpu::cuda {

inline constexpr int rotation_blocks_a_warp = 4;  // Hadamard blocks that a warp keeps in registers

// One slice of `rows` consecutive rows of x.
struct Slice {
  int first_block = 0;
  int blocks = 0;
  int rows = 0;
  std::int64_t source = 0;  // first row of x
};

__device__ __forceinline__ float power_of_two(int exponent) {
  return __int_as_float((exponent + 127) << 23);
}

// Exponent of the scale for a slice whose largest magnitude has the bits `largest`; 0 if that is not finite.
__device__ __forceinline__ int scale_exponent(std::uint32_t largest) {
  const int exponent = static_cast<int>(largest >> 23);
  return exponent == 255 ? 0 : 141 - max(exponent, 41);
}

__device__ __forceinline__ void store_rotated(__half* slice, int input, const float (&v)[4], float scale,
                                              Exl3Order order = Exl3Order::lanes) {
  const std::int64_t first = exl3_input_index(order, input), second = exl3_input_index(order, input + 2);
  *reinterpret_cast<__half2*>(slice + first) = __floats2half2_rn(v[0] * scale, v[1] * scale);
  *reinterpret_cast<__half2*>(slice + second) = __floats2half2_rn(v[2] * scale, v[3] * scale);
}

// Rotates a slice with all threads of the block. `load_suh` may come before x is there, `run` after it.
class SliceRotation {
 public:
  __device__ __forceinline__ void load_suh(const void* suh, const Slice& slice) {
#pragma unroll
    for (int i = 0; i < rotation_blocks_a_warp; ++i) {
      const int task = task_of(i);
      if (task < slice.rows * slice.blocks) suh_[i] = load_scales(suh, column_of(task, slice));
    }
  }

  // Brings the values: load(row, column, v) gives columns column .. column + 3 of a row of the slice.
  template <class Load>
  __device__ __forceinline__ void load_values(const Load& load, const Slice& slice) {
#pragma unroll
    for (int i = 0; i < rotation_blocks_a_warp; ++i) {
      const int task = task_of(i);
      if (task < slice.rows * slice.blocks) load(task / slice.blocks, column_of(task, slice), v_[i]);
    }
  }

  // Row r of the slice goes to out + r * stride. `largest` [rows] is shared memory, all zero; undo [rows] is an output.
  __device__ __forceinline__ void run(const Exl3Rows& x, const Slice& slice, __half* out, int stride,
                                      std::uint32_t* largest, float* undo, Exl3Order order = Exl3Order::lanes) {
    load_values([&](int row, int column, float(&v)[4]) { load_four(x, slice.source + row, column, v); }, slice);
    run(slice, out, stride, {largest, undo}, order);
  }

  // The same from what load_values and load_suh have brought.
  struct Scales {
    std::uint32_t* largest;
    float* undo;
  };
  __device__ __forceinline__ void run(const Slice& slice, __half* out, int stride, const Scales& scales,
                                      Exl3Order order = Exl3Order::lanes) {
#pragma unroll
    for (int i = 0; i < rotation_blocks_a_warp; ++i) {
      const int task = task_of(i);
      if (task >= slice.rows * slice.blocks) break;
      transform(suh_[i], v_[i]);
      std::uint32_t mine = 0;
#pragma unroll
      for (const float value : v_[i]) mine = max(mine, __float_as_uint(value) & 0x7fffffffu);
      mine = __reduce_max_sync(0xffffffffu, mine);
      if (threadIdx.x % 32 == 0) atomicMax(scales.largest + task / slice.blocks, mine);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < rotation_blocks_a_warp; ++i) {
      const int task = task_of(i);
      if (task >= slice.rows * slice.blocks) break;
      const int row = task / slice.blocks, input = task % slice.blocks * exl3_block + 4 * (threadIdx.x % 32);
      store_rotated(out + static_cast<std::int64_t>(row) * stride, input, v_[i],
                    power_of_two(scale_exponent(scales.largest[row])), order);
    }
    if (threadIdx.x < slice.rows) scales.undo[threadIdx.x] = power_of_two(-scale_exponent(scales.largest[threadIdx.x]));
  }

 private:
  static __device__ __forceinline__ int task_of(int i) {
    return static_cast<int>(threadIdx.x) / 32 + i * (static_cast<int>(blockDim.x) / 32);
  }
  static __device__ __forceinline__ int column_of(int task, const Slice& slice) {
    return (slice.first_block + task % slice.blocks) * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32);
  }
  static __device__ __forceinline__ void transform(uint2 suh, float (&v)[4]) {
    float scale[4];
    scale_values(suh, scale);
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] *= scale[j];
    hadamard_128(v, threadIdx.x % 32);
#pragma unroll
    for (float& value : v) value *= hadamard_scale;
  }

  uint2 suh_[rotation_blocks_a_warp];
  float v_[rotation_blocks_a_warp][4];
};

}  // namespace tandem::gpu::cuda
