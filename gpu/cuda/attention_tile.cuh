// The one definition of attention on matrix units, as device code for both of its kernels (attention_matrix.cu for many
// rows, attention_split.cu for few): queries and keys as bf16 in shared memory, and what is added in which order.
//
//   score    two chains of m16n8k16 over the channels, even and odd steps of 16, added at the end; times d^-0.5
//   softmax  tiles of 64 keys from the row's own first key; the maximum so far, exps below it, their sum as a tree:
//            keys 2l and 2l + 1, then l xor 4, 1, 2, 8, 16; sums and values so far are scaled by
//            e^(old - new maximum)
//   values   exps rounded to bf16, the chain over keys in steps of 16, ascending
//   end      divided by sum + e^(sink - maximum), rounded, turned back, rounded
//
// Nothing in it depends on other rows, on other heads, or on the kernel: a row has one result. A matrix instruction
// gives an element the same bits wherever it stands in its tile.
//
// Slabs: numbers lie 64 channels wide, [slab][row][128 bytes], the 16-byte chunks of a row permuted by its number, so
// that eight rows of a matrix lie on different banks.
#pragma once

#include <cuda_bf16.h>

#include <cfloat>
#include <cstring>

#include "gpu/cuda/angle.cuh"
#include "gpu/cuda/exl3/instructions.cuh"
#include "gpu/cuda/key_tile.cuh"

namespace tandem::gpu::cuda {

inline constexpr int wide_dim = 512;
inline constexpr int matrix_heads = 16;             // heads of a matrix tile
inline constexpr int score_steps = wide_dim / 16;   // matrix instructions of a dot product
inline constexpr int tile_steps = key_block / 16;   // and of a tile's values
inline constexpr int chunks_of_row = wide_dim / 8;  // of 8 numbers
inline constexpr int slab_row = 128;                // bytes

// Byte of chunk `chunk` of a row, in slabs of `rows` rows.
__device__ inline int slab_place(int rows, int row, int chunk) {
  return (chunk / 8 * rows + row) * slab_row + ((chunk ^ row) & 7) * 16;
}

// Upper halves of two floats that are bf16 numbers.
__device__ inline unsigned packed(float low, float high) {
  return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

// Two numbers rounded to bf16, in one instruction.
__device__ inline unsigned rounded_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

// Channels `channel`, even, and the next one, rotated and rounded where the head turns.
__device__ inline float2 turned(const RowAngle& angle, int channel, float2 value, bool inverse) {
  if (!is_rotated(angle, channel, wide_dim)) return value;
  return {round_to_bf16(rotated(angle, channel, wide_dim, value.x, value.y, inverse)),
          round_to_bf16(rotated(angle, channel + 1, wide_dim, value.y, value.x, inverse))};
}

// The same with the angle of the two.
__device__ inline float2 turned_by(bool turns, float cos, float sin, float2 value) {
  if (!turns) return value;
  return {round_to_bf16(value.x * cos - value.y * sin), round_to_bf16(value.x * sin + value.y * cos)};
}

// The angle by which two neighbouring channels of a result turn back.
struct PairAngle {
  bool turns = false;
  float cos = 1, sin = 0;
};

__device__ inline PairAngle angle_of_pair(const AttendCall& call, int channel) {
  if (channel >= wide_dim) return {};
  const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
  if (!is_rotated(angle, channel, wide_dim)) return {};
  const int at = (channel - (wide_dim - 2 * angle.pairs)) / 2;
  return {true, angle.cos[at], -angle.sin[at]};
}

// Two channels of a query as the scores take them.
__device__ inline unsigned query_word(const RowAngle& angle, int channel, float low, float high) {
  const float2 value = turned(angle, channel, {low, high}, false);
  return packed(round_to_bf16(value.x), round_to_bf16(value.y));
}

// The queries of `heads` heads of row blockIdx.x, as slabs; zeros for heads that do not exist. All threads take part.
template <int heads>
__device__ void load_queries(const AttendCall& call, int first_head, unsigned char* queries) {
  const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
  const float* row = row_of(call.q, blockIdx.x) + static_cast<std::int64_t>(first_head) * wide_dim;
#pragma unroll 4
  for (int i = threadIdx.x; i < heads * chunks_of_row; i += blockDim.x) {
    const int head = i / chunks_of_row, chunk = i % chunks_of_row, channel = 8 * chunk;
    float4 low = {0, 0, 0, 0}, high = low;
    if (first_head + head < call.heads) {
      const auto* from = reinterpret_cast<const float4*>(row) + 2 * i;
      low = from[0];
      high = from[1];
    }
    uint4 words = {rounded_pair(low.x, low.y), rounded_pair(low.z, low.w), rounded_pair(high.x, high.y),
                   rounded_pair(high.z, high.w)};
    if (is_rotated(angle, channel + 7, wide_dim)) {
      words = {query_word(angle, channel, low.x, low.y), query_word(angle, channel + 2, low.z, low.w),
               query_word(angle, channel + 4, high.x, high.y), query_word(angle, channel + 6, high.z, high.w)};
    }
    *reinterpret_cast<uint4*>(queries + slab_place(heads, head, chunk)) = words;
  }
}

// ---- keys ----

// 8 neighbouring channels as they lie in a record: two words of codes, N4 one. Nothing is done with what is loaded and
// nothing branches, so that many chunks can be on their way.
struct RawChunk {
  unsigned codes[2];
  std::uint8_t scale;
};

// Eight e2m1 numbers times their scale, which stands twice in `scales`; exact. The bytes of the magnitudes are looked
// up; signs stand in the upper bits of the codes' bytes, and of those of the codes moved by a number.
__device__ inline uint4 decode_e2m1_chunk(unsigned codes, unsigned scales) {
  constexpr unsigned sign_bits = 0x80008000U;
  const unsigned numbers = codes & 0x77777777U, moved = codes << 4;
  uint2 low, high;  // bytes of the magnitudes 0, 0.5, 1, 1.5 and 2, 3, 4, 6
  low.x = __byte_perm(0xC0800000U, 0xC0804000U, numbers);
  high.x = __byte_perm(0x3F3F3F00U, 0x40404040U, numbers);
  low.y = __byte_perm(0xC0800000U, 0xC0804000U, numbers >> 16);
  high.y = __byte_perm(0x3F3F3F00U, 0x40404040U, numbers >> 16);
  return {multiply_bf16(__byte_perm(low.x, high.x, 0x5140) | (__byte_perm(moved, codes, 0x4000) & sign_bits), scales),
          multiply_bf16(__byte_perm(low.x, high.x, 0x7362) | (__byte_perm(moved, codes, 0x5010) & sign_bits), scales),
          multiply_bf16(__byte_perm(low.y, high.y, 0x5140) | (__byte_perm(moved, codes, 0x6020) & sign_bits), scales),
          multiply_bf16(__byte_perm(low.y, high.y, 0x7362) | (__byte_perm(moved, codes, 0x7030) & sign_bits), scales)};
}

// An e4m3 scale twice, as bf16.
__device__ inline unsigned scale_pair(std::uint8_t scale) {
  const float value = decode_e4m3_pair(scale).x;
  return packed(value, value);
}

// The bf16 numbers of a chunk; exact.
__device__ inline uint4 decode_chunk(RecordFormat format, const RawChunk& raw) {
  if (format == RecordFormat::n4) return decode_e2m1_chunk(raw.codes[0], scale_pair(raw.scale));
  const float scale = e8m0_to_float(raw.scale);
  unsigned words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 pair = decode_e4m3_pair(static_cast<std::uint16_t>(raw.codes[j / 2] >> (16 * (j % 2))));
    words[j] = packed(pair.x * scale, pair.y * scale);
  }
  return {words[0], words[1], words[2], words[3]};
}

__device__ inline RawChunk load_chunk(RecordFormat format, const std::byte* record, int chunk) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(record);
  const bool is_w8 = format == RecordFormat::w8;
  const auto* words = reinterpret_cast<const unsigned*>(codes) + (is_w8 ? 2 * chunk : chunk);
  return {{words[0], words[is_w8 ? 1 : 0]}, codes[is_w8 ? wide_dim + chunk / 4 : wide_dim / 2 + chunk / 2]};
}

// Decodes `count` records, at least one, to slabs of `keys` rows, a warp a record; the first `in_window` are window
// records. Rows behind them are zeros.
template <int keys, int ahead>
__device__ void decode_slabs(const std::byte* const* places, const KeyFormats& formats, int in_window, int count,
                             unsigned char* slabs) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, warps = static_cast<int>(blockDim.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const auto format_of = [&](int t) { return t < in_window ? formats.window : formats.entry; };
  for (int first = warp; first < keys; first += ahead * warps) {
    RawChunk raw[ahead][2];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int t = min(first + a * warps, count - 1);
      raw[a][0] = load_chunk(format_of(t), places[t], lane);
      raw[a][1] = load_chunk(format_of(t), places[t], warp_size + lane);
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int t = first + a * warps;
      auto* to = reinterpret_cast<uint4*>(slabs + slab_place(keys, t, lane));
      auto* farther = to + warp_size / 8 * keys * slab_row / 16;
      *to = t < count ? decode_chunk(format_of(t), raw[a][0]) : uint4{};
      *farther = t < count ? decode_chunk(format_of(t), raw[a][1]) : uint4{};
    }
  }
}

// ---- results ----

// Sum of the four threads of a quad, and their maximum.
__device__ inline float add_quad(float value) {
  value += __shfl_xor_sync(full_warp, value, 1);
  return value + __shfl_xor_sync(full_warp, value, 2);
}
__device__ inline float most_of_quad(float value) {
  value = fmaxf(value, __shfl_xor_sync(full_warp, value, 1));
  return fmaxf(value, __shfl_xor_sync(full_warp, value, 2));
}

// e^(score - most): two instructions, since a row has 640 of them a head. Off by a few 1e-7, where its rounding to bf16
// takes 2e-3.
__device__ inline float weight_of(float score, float most) {
  return power_of_two((score - most) * 1.44269504F);
}

// Two neighbouring channels of a head's result. `factor` is 1 / (sum of all exps, the sink's too).
__device__ inline void store_pair(const AttendCall& call, const RowAngle& angle, int head, int channel, float factor,
                                  float low, float high) {
  const float2 result = {round_to_bf16(factor * low), round_to_bf16(factor * high)};
  float* out = row_of(call.out, blockIdx.x) + static_cast<std::int64_t>(head) * wide_dim + channel;
  *reinterpret_cast<float2*>(out) = turned(angle, channel, result, true);
}

__device__ inline void store_pair(const AttendCall& call, const PairAngle& angle, int head, int channel, float factor,
                                  float low, float high) {
  const float2 result = {round_to_bf16(factor * low), round_to_bf16(factor * high)};
  float* out = row_of(call.out, blockIdx.x) + static_cast<std::int64_t>(head) * wide_dim + channel;
  *reinterpret_cast<float2*>(out) = turned_by(angle.turns, angle.cos, angle.sin, result);
}

__device__ inline float end_factor(float total, float sink, float most) {
  return 1.0F / (total + exponential(sink - most));
}

}  // namespace tandem::gpu::cuda
