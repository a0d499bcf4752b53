// One lane's part of a weight group: 4*K words that hold 128 windows in a row, and the word before them.
//
// Bytes: a warp loads K * 512 contiguous bytes a group, each once; they bypass the first-level cache. Cost: about 1.4
// to 1.9 integer instructions a window, since every offset is known to the compiler.
#pragma once

#include <cstdint>

#include "gpu/cuda/exl3/codebook.cuh"

namespace tandem::gpu::cuda {

__device__ __forceinline__ uint4 load_once(const uint4* address) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

// The K pieces of one lane as they come from memory.
template <int bits>
struct LanePieces {
  uint4 piece[bits];

  // `first` points at this lane's piece 0 of the group.
  __device__ __forceinline__ void load(const uint4* first) {
#pragma unroll
    for (int i = 0; i < bits; ++i) piece[i] = load_once(first + 32 * i);
  }
};

template <int bits>
struct LaneStream {
  std::uint32_t word[4 * bits];
  std::uint32_t before;  // last word of the tile's other half: a tile's stream is circular

  __device__ __forceinline__ explicit LaneStream(const LanePieces<bits>& pieces) {
#pragma unroll
    for (int i = 0; i < bits; ++i) {
      word[4 * i] = pieces.piece[i].x;
      word[4 * i + 1] = pieces.piece[i].y;
      word[4 * i + 2] = pieces.piece[i].z;
      word[4 * i + 3] = pieces.piece[i].w;
    }
    before = __shfl_xor_sync(0xffffffffu, word[4 * bits - 1], 4);
  }

  // State of window t = 0..127: the 16 bits that end with its K fresh bits. Windows of one byte phase share the shift
  // when two of them fit into 32 bits (K = 2 and 4), else a shift and a mask each.
  __device__ __forceinline__ std::uint32_t state(int t) const {
    const int end = (t + 1) * bits, index = (end - 1) / 32, offset = 32 * (index + 1) - end;
    const bool shares = bits == 2 || bits == 4 || bits == 8;
    const int byte = shares ? (offset >= 24 ? 16 : offset / 8 * 8) : offset % 8 == 0 && offset <= 16 ? offset : 0;
    const int shift = offset - byte;
    const std::uint32_t low = word[index], high = index > 0 ? word[index - 1] : before;
    const std::uint32_t bits32 = shift == 0                   ? low
                                 : shares || offset + 16 > 32 ? __funnelshift_r(low, high, shift)
                                                              : low >> shift;
    if (byte == 16) return bits32 >> 16;
    if (byte == 8) return __byte_perm(bits32, 0, 0x4421);
    return bits32 & 0xffffu;
  }

  // Windows 8*run .. 8*run + 7 as the A fragment of mma.m16n8k16 (rows = outputs, columns = inputs).
  template <Exl3Codebook codebook>
  __device__ __forceinline__ void fragment(int run, std::uint32_t (&a)[4]) const {
    const int t = 8 * run;
    a[0] = weight_pair<codebook>(state(t), state(t + 1));
    a[2] = weight_pair<codebook>(state(t + 2), state(t + 3));
    a[1] = weight_pair<codebook>(state(t + 4), state(t + 5));
    a[3] = weight_pair<codebook>(state(t + 6), state(t + 7));
  }
};

}  // namespace tandem::gpu::cuda
