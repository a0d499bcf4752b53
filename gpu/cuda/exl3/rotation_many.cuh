// The rotation of many rows: the bits of rotation.cuh by threads that hold more, because here the exchanges between
// threads are the limit and not their latency.
//
// Work     8 threads a Hadamard block of 128: thread t holds elements 32 j + 4 t + {0..3}, j = 0..3. The stages of the
//          transform come in the same order: two inside a thread, three between threads (3 exchanges an element where
//          a warp a block needs 5), two inside.
// Stores   pairs of threads exchange halves of groups of 64, so that each writes 16 bytes in a row, in either order.
// Limit    memory: 2 bytes an element written, past what is read again and again in the second-level cache.
#pragma once

#include "gpu/cuda/exl3/rotation.cuh"

namespace tandem::gpu::cuda {

inline constexpr int rotation_team = 8;                                 // threads of a Hadamard block
inline constexpr int rotation_pieces = exl3_block / rotation_team / 4;  // of four elements, of one thread

// 128 elements in a team of 8 threads; `member` is the thread's number in it.
struct TeamBlock {
  float v[rotation_pieces][4];

  static __device__ __forceinline__ int column(int piece, int member) { return 32 * piece + 4 * member; }

  __device__ __forceinline__ void load(const Exl3Rows& x, std::int64_t row, int first, int member) {
#pragma unroll
    for (int j = 0; j < rotation_pieces; ++j) load_four(x, row, first + column(j, member), v[j]);
  }

  __device__ __forceinline__ void scale(const uint2 (&suh)[rotation_pieces]) {
#pragma unroll
    for (int j = 0; j < rotation_pieces; ++j) {
      float factor[4];
      scale_values(suh[j], factor);
#pragma unroll
      for (int i = 0; i < 4; ++i) v[j][i] *= factor[i];
    }
  }

  // (a, b) -> (a + b, a - b) for distances 1, 2 | 4, 8, 16 between threads | 32, 64; without hadamard_scale.
  __device__ __forceinline__ void transform(int member) {
#pragma unroll
    for (auto& four : v) hadamard_4(four);
#pragma unroll
    for (int width = 1; width < rotation_team; width *= 2) {
      const float sign = (member & width) != 0 ? -1.0f : 1.0f;  // a product with it is exact: one rounding, as before
#pragma unroll
      for (auto& four : v) {
#pragma unroll
        for (float& x : four) x = fmaf(sign, x, __shfl_xor_sync(0xffffffffu, x, width));
      }
    }
#pragma unroll
    for (int width = 1; width < rotation_pieces; width *= 2) {
#pragma unroll
      for (int j = 0; j < rotation_pieces; ++j) {
        if ((j & width) != 0) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float a = v[j][i], b = v[j + width][i];
          v[j][i] = a + b;
          v[j + width][i] = a - b;
        }
      }
    }
  }

  // Bits of the largest magnitude of the team's elements, scaled as they will be, for all its threads. Rounding keeps
  // order, so the largest product is the product of the largest.
  __device__ __forceinline__ std::uint32_t largest() const {
    std::uint32_t most = 0;
#pragma unroll
    for (const auto& four : v) {
#pragma unroll
      for (const float value : four) most = max(most, __float_as_uint(value) & 0x7fffffffu);
    }
#pragma unroll
    for (int width = 1; width < rotation_team; width *= 2) {
      most = max(most, __shfl_xor_sync(0xffffffffu, most, width));
    }
    return __float_as_uint(__uint_as_float(most) * hadamard_scale);
  }

  // To `out`, the place of the block's first element, in the given order: all threads of the warp take part, those that
  // are no task without a write. hadamard_scale and a power of two are one factor: where the product of the first alone
  // would be subnormal, either is 0 in fp16. Two threads hold the pairs of two times 16 bytes; each takes one of them.
  template <Exl3Order order>
  __device__ __forceinline__ void store(__half* out, int exponent, int member, bool is_task) const {
    const float factor = hadamard_scale * power_of_two(exponent);
    if constexpr (order == Exl3Order::steps) return store_steps(out, factor, member, is_task);
    store_lanes(out, factor, member, is_task);
  }

  // The same to element `first` of the rotated rows, in their order.
  __device__ __forceinline__ void store_as(const Exl3Rotated& rotated, std::int64_t first, int exponent, int member,
                                           bool is_task) const {
    __half* out = static_cast<__half*>(rotated.values) + first;
    if (rotated.order == Exl3Order::steps) return store<Exl3Order::steps>(out, exponent, member, is_task);
    store<Exl3Order::lanes>(out, exponent, member, is_task);
  }

 private:
  // Thread t and t ^ 2: the two tile rows of one mma step.
  __device__ __forceinline__ void store_lanes(__half* out, float factor, int member, bool is_task) const {
    const bool is_upper = (member & 2) != 0;
#pragma unroll
    for (int group = 0; group < rotation_pieces / 2; ++group) {
      std::uint32_t kept[2], got[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::uint32_t even = pair(v[2 * group], c, factor), odd = pair(v[2 * group + 1], c, factor);
        kept[c] = is_upper ? odd : even;
        got[c] = __shfl_xor_sync(0xffffffffu, is_upper ? even : odd, 2);
      }
      const int place = group * exl3_group + member % 2 * 32 + (is_upper ? 16 : 0) + member / 4 * 8;
      const uint4 made =
          is_upper ? make_uint4(got[0], kept[0], got[1], kept[1]) : make_uint4(kept[0], got[0], kept[1], got[1]);
      if (is_task) __stcs(reinterpret_cast<uint4*>(out + place), made);
    }
  }

  // Thread t and t ^ 4: all four tile rows of half a step.
  __device__ __forceinline__ void store_steps(__half* out, float factor, int member, bool is_task) const {
    const bool is_upper = (member & 4) != 0;
#pragma unroll
    for (int group = 0; group < rotation_pieces / 2; ++group) {
      std::uint32_t kept[2], got[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::uint32_t low = pair(v[2 * group + c], 0, factor), high = pair(v[2 * group + c], 1, factor);
        kept[c] = is_upper ? high : low;
        got[c] = __shfl_xor_sync(0xffffffffu, is_upper ? low : high, 4);
      }
      const int place = group * exl3_group + (member % 2 * 2 + (is_upper ? 1 : 0)) * 16 + (member & 2) * 4;
      const uint4 made =
          is_upper ? make_uint4(got[0], kept[0], got[1], kept[1]) : make_uint4(kept[0], got[0], kept[1], got[1]);
      if (is_task) __stcs(reinterpret_cast<uint4*>(out + place), made);
    }
  }

  static __device__ __forceinline__ std::uint32_t pair(const float (&four)[4], int c, float factor) {
    const __half2 two = __floats2half2_rn(four[2 * c] * factor, four[2 * c + 1] * factor);
    return *reinterpret_cast<const std::uint32_t*>(&two);
  }
};

// The slice that Hadamard block `block` of `blocks` lies in.
__device__ __forceinline__ int slice_of_block(int block, int blocks, int slices) {
  return ((block + 1) * slices - 1) / blocks;
}

}  // namespace tandem::gpu::cuda
