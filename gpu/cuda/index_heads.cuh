// One row's index queries in a warp's registers, and its scores of eight keys by matrix instructions.
//
// An instruction has 16 heads as its rows, 8 keys as its columns and 16 dimensions: 32 heads and 128 dimensions are 16
// of them. Two make the 32 dimensions of a block; they start from zero, so each sum is the exact b_i of
// gpu/index_order.hpp, and the rest of that order is written below. Lane 4g + p of a warp holds heads g, g + 8, g + 16
// and g + 24, which are lane g of the order: the tree over those lanes is the last step.
//
// Which dimension an instruction's column is does not matter as long as queries and keys agree. Here lane p has the
// eight dimensions of one word of codes: dimension 32 b + 8 p + i, with i and i + 4 in one register, i ascending.
// Missing heads have zero queries and weights, which add nothing.
#pragma once

#include <cstdint>

#include "gpu/cuda/exl3/instructions.cuh"
#include "gpu/cuda/index_kernels.hpp"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/records.cuh"
#include "gpu/index_order.hpp"

namespace tandem::gpu::cuda::indexing {

inline constexpr int dim = 128;
inline constexpr int heads_most = 32;
inline constexpr int blocks = dim / index_dims;
inline constexpr int tile_keys = 8;                         // columns of an instruction
inline constexpr int group_tiles = 4;                       // tiles whose sums are formed across the lanes together
inline constexpr int group_keys = group_tiles * tile_keys;  // one a lane
static_assert(group_keys == warp_size && heads_most == 4 * index_lanes);

// Keys of a tile, decoded to bf16: lane 4g + p has a word of key g in every block.
struct KeyTile {
  uint4 words[blocks];
};

// Codes of a lane in a tile, and the scales of its key.
struct KeyCodes {
  std::uint32_t words[blocks];
  std::uint32_t scales;
};

// What the codes of a lane and the scales of its key span.
struct KeySpan {
  std::uint32_t digits;  // all codes as one; 0 where this lane has none
  unsigned least, most;  // scales
};

__device__ __forceinline__ KeySpan span_of(const KeyCodes& codes) {
  std::uint32_t digits = 0;
  unsigned least = 255, most = 0;
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const unsigned scale = codes.scales >> (8 * b) & 255U;
    digits |= codes.words[b];
    least = scale < least ? scale : least;
    most = scale < most ? most : scale;
  }
  return {digits, least, most};
}

// Sixteen heads: what a matrix instruction has as rows.
struct HalfHeads {
  std::uint32_t queries[blocks][2][4];  // [block][instruction]
  float weights[2];                     // of heads g and g + 8
};

struct QueryHeads {
  HalfHeads halves[2];
};

__device__ __forceinline__ std::uint32_t bf16_pair(float low, float high) {
  return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

// Heads from 16 `half` on. The queries are values of X4 records, so their upper halves are all of them.
__device__ __forceinline__ void load_half(const IndexWork& work, std::int64_t row, int half, HalfHeads& own) {
  const int g = static_cast<int>(threadIdx.x) % warp_size / 4, p = static_cast<int>(threadIdx.x) % 4;
  const float *queries = row_of(work.iq, row), *weights = row_of(work.weights, row);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int head = g + index_lanes * (2 * half + h);
    const bool is_there = head < work.heads;
    own.weights[h] = is_there ? weights[head] : 0.0F;
#pragma unroll
    for (int b = 0; b < blocks; ++b) {
      const auto* from = reinterpret_cast<const float4*>(queries + head * dim + b * index_dims + 8 * p);
      const float4 low = is_there ? from[0] : make_float4(0, 0, 0, 0);
      const float4 high = is_there ? from[1] : make_float4(0, 0, 0, 0);
      auto& pair = own.queries[b];
      pair[0][h] = bf16_pair(low.x, high.x);
      pair[0][2 + h] = bf16_pair(low.y, high.y);
      pair[1][h] = bf16_pair(low.z, high.z);
      pair[1][2 + h] = bf16_pair(low.w, high.w);
    }
  }
}

__device__ inline void load_queries(const IndexWork& work, std::int64_t row, QueryHeads& own) {
#pragma unroll
  for (int half = 0; half < 2; ++half) load_half(work, row, half, own.halves[half]);
}

__device__ __forceinline__ const std::uint32_t* key_record(const IndexSource& row, int entry) {
  const std::int64_t place = std::int64_t{row.pages[entry / page_entries]} * page_entries + entry % page_entries;
  return reinterpret_cast<const std::uint32_t*>(row.pool + place * bytes_of_record(RecordFormat::x4, dim));
}

// The codes of this lane's key of the tile that begins at entry `first`; zeros behind the last visible one.
__device__ __forceinline__ KeyCodes load_codes(const IndexSource& row, int first, int visible) {
  const int entry = first + static_cast<int>(threadIdx.x) % warp_size / 4;
  KeyCodes codes = {};
  if (entry >= visible) return codes;
  const std::uint32_t* record = key_record(row, entry);
#pragma unroll
  for (int b = 0; b < blocks; ++b) codes.words[b] = record[4 * b + static_cast<int>(threadIdx.x) % 4];
  codes.scales = record[dim / 8];
  return codes;
}

// A pair of bf16, both 2^(byte - 127).
__device__ __forceinline__ std::uint32_t scale_pair(std::uint32_t byte) {
  std::uint32_t bits = byte << 7;
  if (byte == 0) bits = 0x0040;
  if (byte == 255) bits = 0x7FC0;
  return bits | bits << 16;
}

// Moved into a bf16, a code reads 2^-126 times its value, subnormal or not; then the scale. Both products are exact.
__device__ __forceinline__ std::uint32_t decode_pair(std::uint32_t magnitude, std::uint32_t sign, std::uint32_t scale) {
  constexpr std::uint32_t lift = 0x7E807E80;  // 2^126 twice
  return multiply_bf16(multiply_bf16((magnitude & 0x01C001C0U) | (sign & 0x80008000U), lift), scale);
}

__device__ __forceinline__ KeyTile decode_keys(const KeyCodes& codes) {
  KeyTile tile;
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const std::uint32_t word = codes.words[b], scale = scale_pair(codes.scales >> (8 * b) & 255U);
    tile.words[b].x = decode_pair(word << 6, word << 12, scale);
    tile.words[b].y = decode_pair(word << 2, word << 8, scale);
    tile.words[b].z = decode_pair(word >> 2, word << 4, scale);
    tile.words[b].w = decode_pair(word >> 6, word, scale);
  }
  return tile;
}

// Adds sixteen heads to lane g of the order for keys 2p and 2p + 1 of the tile.
__device__ __forceinline__ void add_half(const HalfHeads& own, const KeyTile& tile, float (&lane)[2]) {
  float dots[4];
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const uint4 keys = tile.words[b];
    float sum[4] = {};
    multiply_add_bf16(sum, own.queries[b][0], keys.x, keys.y);
    multiply_add_bf16(sum, own.queries[b][1], keys.z, keys.w);
#pragma unroll
    for (int i = 0; i < 4; ++i) dots[i] = b == 0 ? sum[i] : dots[i] + sum[i];
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
#pragma unroll
    for (int h = 0; h < 2; ++h) lane[c] = fmaf(own.weights[h], fmaxf(dots[2 * h + c], 0.0F), lane[c]);
  }
}

// All heads.
__device__ __forceinline__ void add_heads(const QueryHeads& own, const KeyTile& tile, float (&lane)[2]) {
  lane[0] = lane[1] = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) add_half(own.halves[half], tile, lane);
}

// The key of a group that this lane gets from add_lanes.
__device__ __forceinline__ int own_key() {
  const int g = static_cast<int>(threadIdx.x) % warp_size / 4, p = static_cast<int>(threadIdx.x) % 4;
  return tile_keys * (g / 2) + 2 * p + g % 2;
}

// The tree over lanes l + 4, l + 2, l + 1: in each step a lane keeps half of its keys and gives the others away.
__device__ __forceinline__ float add_lanes(const float (&lane)[group_tiles][2]) {
  const int g = static_cast<int>(threadIdx.x) % warp_size / 4;
  float four[2][2], two[2];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const float kept = g < 4 ? lane[t][c] : lane[2 + t][c], given = g < 4 ? lane[2 + t][c] : lane[t][c];
      four[t][c] = kept + __shfl_xor_sync(full_warp, given, 16);
    }
  }
  const bool is_second = g / 2 % 2 != 0, is_odd = g % 2 != 0;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float kept = is_second ? four[1][c] : four[0][c], given = is_second ? four[0][c] : four[1][c];
    two[c] = kept + __shfl_xor_sync(full_warp, given, 8);
  }
  return (is_odd ? two[1] : two[0]) + __shfl_xor_sync(full_warp, is_odd ? two[0] : two[1], 4);
}

// The score of this lane's key of the group whose tiles begin at `tiles`; a tile at `visible` is none. The same tiles
// in all lanes.
__device__ inline float score_tiles_of(const IndexSource& row, const QueryHeads& queries,
                                       const int (&tiles)[group_tiles], int visible) {
  KeyCodes codes[group_tiles];  // asked for together: a warp waits once
#pragma unroll
  for (int t = 0; t < group_tiles; ++t) codes[t] = load_codes(row, tiles[t], visible);
  float lanes_of_key[group_tiles][2] = {};
#pragma unroll
  for (int t = 0; t < group_tiles; ++t) {
    if (tiles[t] < visible) add_heads(queries, decode_keys(codes[t]), lanes_of_key[t]);
  }
  return add_lanes(lanes_of_key);
}

}  // namespace tandem::gpu::cuda::indexing
