// One lane's part of a weight group: 4*K words that hold 128 windows in a row, and the word before them.
//
// Bytes: a warp loads K * 512 contiguous bytes a group, each once; they bypass the first-level cache. Cost: about 1.4
// to 1.9 integer instructions a window, since every offset is known to the compiler.
#pragma once

#include <cstdint>

#include "gpu/cuda/exl3/codebook.cuh"
#include "gpu/cuda/exl3/instructions.cuh"

namespace tandem::gpu::cuda {

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

// Words of a lane's stream in a row that begin with a window: 32 windows are K words, so every quarter of a lane's part
// has the same offsets.
template <int bits, int words>
struct Windows {
  std::uint32_t word[words];
  std::uint32_t before;  // the word in front

  // State of window t, counted from word 0: the 16 bits that end with its K fresh bits. Windows of one byte phase share
  // the shift when two of them fit into 32 bits (K = 2 and 4), else a shift and a mask each.
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

// All 128 windows of a lane.
template <int bits>
struct LaneStream : Windows<bits, 4 * bits> {
  __device__ __forceinline__ explicit LaneStream(const LanePieces<bits>& pieces) {
#pragma unroll
    for (int i = 0; i < bits; ++i) {
      this->word[4 * i] = pieces.piece[i].x;
      this->word[4 * i + 1] = pieces.piece[i].y;
      this->word[4 * i + 2] = pieces.piece[i].z;
      this->word[4 * i + 3] = pieces.piece[i].w;
    }
    // The last word of the tile's other half: a tile's stream is circular.
    this->before = __shfl_xor_sync(0xffffffffu, this->word[4 * bits - 1], 4);
  }
};

// Windows 32 * quad .. 32 * quad + 31 of a lane: the four k-steps of one column quad. For warps that share the decode
// of a group; they read the same lines, which the first-level cache keeps meanwhile.
template <int bits>
struct QuadStream : Windows<bits, bits> {
  // `group` points at piece 0 of lane 0.
  __device__ __forceinline__ void load(const std::uint32_t* group, int quad, int lane) {
#pragma unroll
    for (int i = 0; i < bits; ++i) this->word[i] = __ldg(group + place(bits * quad + i, lane));
    // In front of the first quad lies the last word of the tile's other half.
    this->before = __ldg(group + (quad > 0 ? place(bits * quad - 1, lane) : place(4 * bits - 1, lane ^ 4)));
  }

  // The same by loads of two words, of widths without a place; odd ones have words one by one.
  __device__ __forceinline__ void load_wide(const std::uint32_t* group, int quad, int lane) {
    static_assert(!has_place);
    if constexpr (bits % 2 == 1) return load(group, quad, lane);
#pragma unroll
    for (int i = 0; i + 1 < bits; i += 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(group + place(bits * quad + i, lane)));
      this->word[i] = two.x;
      this->word[i + 1] = two.y;
    }
    this->before = __ldg(group + (quad > 0 ? place(bits * quad - 1, lane) : place(4 * bits - 1, lane ^ 4)));
  }

  // Where a lane's words of a quad lie, of widths whose quads are whole pieces or inside one.
  static constexpr bool has_place = bits == 2 || bits == 4 || bits == 8;
  struct Place {
    const char *words, *before;

    __device__ __forceinline__ Place(const std::uint32_t* group, int quad, int lane)
        : words(reinterpret_cast<const char*>(group + place(bits * quad, lane))),
          before(reinterpret_cast<const char*>(
              group + (quad > 0 ? place(bits * quad - 1, lane) : place(4 * bits - 1, lane ^ 4)))) {}
  };

  // The same of the group `distance` bytes behind the place's. An address is one addition of 64 bits.
  __device__ __forceinline__ void load_at(const Place& at, std::uint32_t distance) {
    static_assert(has_place);
    constexpr int piece_line = 32 * 16;
    if constexpr (bits == 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(at.words + distance));
      this->word[0] = two.x;
      this->word[1] = two.y;
    }
#pragma unroll
    for (int i = 0; i + 4 <= bits; i += 4) {
      const uint4 four = __ldg(reinterpret_cast<const uint4*>(at.words + distance + i / 4 * piece_line));
      this->word[i] = four.x;
      this->word[i + 1] = four.y;
      this->word[(i + 2) % bits] = four.z;
      this->word[(i + 3) % bits] = four.w;
    }
    this->before = __ldg(reinterpret_cast<const std::uint32_t*>(at.before + distance));
  }

 private:
  static __device__ __forceinline__ int place(int word, int lane) {
    return (word / 4 * 32 + lane) * 4 + word % 4;
  }
};

}  // namespace tandem::gpu::cuda
