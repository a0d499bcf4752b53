// The one definition of attention on matrix units, as device code for both of its kernels (attention_matrix.cu for many
// rows, attention_split.cu for few): queries and keys as bf16 in shared memory, and what is added in which order.
//
//   score    two chains of m16n8k16 over the channels, even and odd steps of 16, added at the end; times d^-0.5
//   softmax  tiles of 64 keys from the row's own first key; the maximum so far, exps below it, their sum as a tree:
//   keys
//            2l and 2l + 1, then l xor 4, 1, 2, 8, 16; sums and values so far are scaled by e^(old - new maximum)
//   values   exps rounded to bf16, the chain over keys in steps of 16, ascending
//   end      divided by sum + e^(sink - maximum), rounded, turned back, rounded
//
// Nothing in it depends on other rows, on other heads, or on the kernel: a row has one result. A matrix instruction
// gives an element the same bits wherever it stands in its tile.
//
// Slabs: numbers lie 64 channels wide, [slab][row][128 bytes], the 16-byte chunks of a row permuted by its number and
// its slab's. So eight rows of a matrix lie on different banks, and so does every other chunk of a key.
#pragma once

#include <cfloat>

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
  return (chunk / 8 * rows + row) * slab_row + ((chunk ^ row ^ (chunk / 8 & 1)) & 7) * 16;
}

// What turns the place of a row's first or second chunk in slab 0 into that of the same chunk of its step `step` of 16
// channels, but for the slab itself.
__device__ constexpr int step_bits(int step) {
  return step % 4 * 32 ^ step / 4 % 2 * 16;
}

// Upper halves of two floats that are bf16 numbers.
__device__ inline unsigned packed(float low, float high) {
  return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

// Channels `channel`, even, and the next one, turned if they are among those that turn.
__device__ inline float2 turned(const RowAngle& angle, int channel, float2 value, bool inverse) {
  return {rotated(angle, channel, wide_dim, value.x, value.y, inverse),
          rotated(angle, channel + 1, wide_dim, value.y, value.x, inverse)};
}

// Eight channels of a query as the scores take them.
__device__ inline uint4 query_chunk(const RowAngle& angle, int channel, float4 low, float4 high) {
  float2 pairs[4] = {{low.x, low.y}, {low.z, low.w}, {high.x, high.y}, {high.z, high.w}};
  if (is_rotated(angle, channel + 7, wide_dim)) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = turned(angle, channel + 2 * i, pairs[i], false);
  }
  return {round_pair(pairs[0].x, pairs[0].y), round_pair(pairs[1].x, pairs[1].y), round_pair(pairs[2].x, pairs[2].y),
          round_pair(pairs[3].x, pairs[3].y)};
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
    const uint4 words = query_chunk(angle, channel, low, high);
    *reinterpret_cast<uint4*>(queries + slab_place(heads, head, chunk)) = words;
  }
}

// ---- keys ----

// 16 neighbouring channels as they lie in a record: two pairs of words, N4 one. Nothing is done with what is loaded and
// nothing branches, so that many groups can be on their way.
struct RawGroup {
  uint2 codes[2];
  std::uint8_t scale;
};

__device__ inline RawGroup load_group(RecordFormat format, const std::byte* record, int group) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(record);
  const bool is_w8 = format == RecordFormat::w8;
  const auto* words = reinterpret_cast<const uint2*>(codes) + (is_w8 ? 2 * group : group);
  return {{words[0], words[is_w8 ? 1 : 0]}, codes[is_w8 ? wide_dim + group / 2 : wide_dim / 2 + group]};
}

// Eight e2m1 numbers times their scale; exact. The bytes of their magnitudes as bf16 are looked up.
__device__ inline uint4 decode_e2m1_chunk(unsigned codes, unsigned scales) {
  constexpr unsigned signs = 0x80008000U;
  unsigned low[2], high[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned numbers = codes >> (16 * half) & 0x7777U;
    low[half] = __byte_perm(0xC0800000U, 0xC0804000U, numbers);  // of 0, 0.5, 1, 1.5 and of 2, 3, 4, 6
    high[half] = __byte_perm(0x3F3F3F00U, 0x40404040U, numbers);
  }
  const unsigned even = codes << 4;  // the sign of an even number is now a byte's first bit, as that of an odd one is
  return {
      multiply_bf16(__byte_perm(low[0], high[0], 0x5140) | (__byte_perm(even, codes, 0x4000) & signs), scales),
      multiply_bf16(__byte_perm(low[0], high[0], 0x7362) | (__byte_perm(even, codes, 0x5010) & signs), scales),
      multiply_bf16(__byte_perm(low[1], high[1], 0x5140) | (__byte_perm(even, codes, 0x6020) & signs), scales),
      multiply_bf16(__byte_perm(low[1], high[1], 0x7362) | (__byte_perm(even, codes, 0x7030) & signs), scales)};
}

__device__ inline uint4 decode_e4m3_chunk(uint2 codes, float scale) {
  unsigned words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 pair = decode_e4m3_pair(static_cast<std::uint16_t>((j < 2 ? codes.x : codes.y) >> (16 * (j % 2))));
    words[j] = packed(pair.x * scale, pair.y * scale);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Stores the bf16 numbers of a group, exactly, as two chunks.
__device__ inline void store_group(RecordFormat format, const RawGroup& raw, unsigned char* first,
                                   unsigned char* second) {
  uint4 low, high;
  if (format == RecordFormat::n4) {
    const float scale = decode_e4m3_pair(raw.scale).x;
    const unsigned scales = packed(scale, scale);
    low = decode_e2m1_chunk(raw.codes[0].x, scales);
    high = decode_e2m1_chunk(raw.codes[0].y, scales);
  } else {
    const float scale = e8m0_to_float(raw.scale);
    low = decode_e4m3_chunk(raw.codes[0], scale);
    high = decode_e4m3_chunk(raw.codes[1], scale);
  }
  *reinterpret_cast<uint4*>(first) = low;
  *reinterpret_cast<uint4*>(second) = high;
}

// Decodes `count` records, at least one, to slabs of `keys` rows, a warp a record; the first `in_window` are window
// records. Rows behind them repeat the last one: they weigh nothing.
template <int keys, int ahead>
__device__ void decode_slabs(const std::byte* const* places, const KeyFormats& formats, int in_window, int count,
                             unsigned char* slabs) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, warps = static_cast<int>(blockDim.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int first = warp; first < keys; first += ahead * warps) {
    RawGroup raw[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int t = min(first + a * warps, count - 1);
      raw[a] = load_group(t < in_window ? formats.window : formats.entry, places[t], lane);
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int row = first + a * warps, at = slab_place(keys, row, 2 * lane);
      const bool is_window = min(row, count - 1) < in_window;
      store_group(is_window ? formats.window : formats.entry, raw[a], slabs + at, slabs + (at ^ 16));
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
  float2 result = unpacked(round_pair(factor * low, factor * high));
  if (is_rotated(angle, channel, wide_dim)) {
    result = turned(angle, channel, result, true);
    result = unpacked(round_pair(result.x, result.y));
  }
  float* out = row_of(call.out, blockIdx.x) + static_cast<std::int64_t>(head) * wide_dim + channel;
  *reinterpret_cast<float2*>(out) = result;
}

__device__ inline float end_factor(float total, float sink, float most) {
  return 1.0F / (total + exponential(sink - most));
}

}  // namespace tandem::gpu::cuda
