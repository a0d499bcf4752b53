// Half of a lane's part of a weight group: the 64 windows of two column quads, for warps of 32 outputs.
//
// Bytes: two warps share the lines of a group (of an odd K one line, else only the word in front), which the
// first-level cache keeps meanwhile. Every window offset is known to the compiler, as in lane_stream.cuh.
#pragma once

#include <cstdint>

#include "gpu/cuda/exl3/lane_stream.cuh"

namespace tandem::gpu::cuda {

// Windows 64 * half .. 64 * half + 63 of a lane.
template <int bits>
struct HalfStream : Windows<bits, 2 * bits> {
  // Where a lane's words lie in a group, counted in words: its pieces hold four words, and a half of odd K begins or
  // ends inside one.
  struct Place {
    int even, odd, before;  // words 0, 4, .. of the half; words 2, 6, ..; the word in front

    __device__ __forceinline__ Place(int half, int lane)
        : even(place(2 * bits * half, lane)),
          odd(place(2 * bits * half + 2, lane)),
          // In front of the first half lies the last word of the tile's other half.
          before(half > 0 ? place(2 * bits - 1, lane) : place(4 * bits - 1, lane ^ 4)) {}
  };

  __device__ __forceinline__ void load(const std::uint32_t* group, const Place& at) {
    constexpr int piece_line = 32 * 4;
#pragma unroll
    for (int i = 0; i < bits; ++i) {
      const std::uint32_t* pair = group + (i % 2 == 0 ? at.even : at.odd) + i / 2 * piece_line;
      if (bits % 2 == 1) {
        const uint2 two = __ldg(reinterpret_cast<const uint2*>(pair));
        this->word[2 * i] = two.x;
        this->word[2 * i + 1] = two.y;
      } else if (i % 2 == 0) {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(pair));
        this->word[2 * i] = four.x;
        this->word[2 * i + 1] = four.y;
        this->word[(2 * i + 2) % (2 * bits)] = four.z;
        this->word[(2 * i + 3) % (2 * bits)] = four.w;
      }
    }
    this->before = __ldg(group + at.before);
  }

 private:
  static __device__ __forceinline__ int place(int word, int lane) {
    return (word / 4 * 32 + lane) * 4 + word % 4;
  }
};

}  // namespace tandem::gpu::cuda
