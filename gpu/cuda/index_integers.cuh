// Index queries and keys as 8-bit integers: a row's scores of eight keys by eight matrix instructions instead of the
// sixteen of index_heads.cuh, with the same bits.
//
// Digits of X4 records are integers of up to 12 times half a scale. Where the scales of a key are at most three octaves
// apart, its values are integers of up to 12 << 3 times half of the least one. So are those of a head whose blocks'
// largest values are at most three octaves apart: a block's largest value 2^q * 1.x is at most three octaves above the
// block's unit, so all are multiples of 2^(q_h - 6), q_h that of the head, and less than 2^7 of them.
//
// Then dot_h = n 2^(u_h + e), u_h the exponent of the head's unit and e of the key's, and |n| < 2^22. Sums begin with
// the bits of 3, whose last bit is worth 2^-22: those of the result are the float 3 + n 2^-22, and one addition leaves
// r = relu(n) 2^-22. The order of gpu/index_order.hpp sums w_h relu(dot_h) = 2^e * v_h r with v_h = w_h 2^(u_h + 22).
// Here it sums v_h r and multiplies by 2^e last. Each rounding is that of the order, 2^-e times as large, as long as
// no result in between leaves the normal numbers in either scale. Nothing does: with 2^-48 <= |v_h| < 2^49 all results
// are multiples of 2^-93 (v_h of 2^-71, r of 2^-22) and, 32 heads, less than 2^55; with -32 <= e <= 32 both ends stay
// inside of 2^-126 and 2^127. What is outside of these bounds is left to index_heads.cuh.
#pragma once

#include "gpu/cuda/index_heads.cuh"

namespace tandem::gpu::cuda::indexing {

inline constexpr unsigned octaves_most = 3;
inline constexpr int integer_most = 12 << octaves_most;
inline constexpr std::uint32_t sum_begin = 0x40400000;  // 3.0F
static_assert(dim * 127 * integer_most < 1 << 22);

// Exponents, with the bias of a float.
inline constexpr unsigned unit_least = 96, unit_most = 160;      // of a key's least scale
inline constexpr unsigned weight_least = 79, weight_most = 175;  // of v_h

// A row's queries as a warp's operands, lane and heads as in QueryHeads; weights are v_h.
struct IntegerHeads {
  std::uint32_t queries[blocks][2][4];
  float weights[4];
};

// Keys of a tile: a lane's eight dimensions of two blocks each.
struct IntegerTile {
  uint4 words[blocks / 2];
};

// Four integers from the bits of floats that a large number was added to.
__device__ __forceinline__ std::uint32_t low_bytes(const float (&x)[4]) {
  const std::uint32_t low = __byte_perm(__float_as_uint(x[0]), __float_as_uint(x[1]), 0x0040);
  return __byte_perm(low, __byte_perm(__float_as_uint(x[2]), __float_as_uint(x[3]), 0x0040), 0x5410);
}

// `exponents` are those of the largest value of each head, 0 where all are zero; its blocks are near. Returns whether
// this lane's weights are within their bounds.
__device__ inline bool make_integers(const QueryHeads& own, const unsigned (&exponents)[4], IntegerHeads& integers) {
  constexpr float large = 0x1.8p23F;  // what is added to it shows in its last bits
  bool fits = true;
#pragma unroll
  for (int h = 0; h < 4; ++h) {
    const unsigned exponent = exponents[h] == 0 ? 127 : exponents[h];
    const float per_unit = __uint_as_float((127 + 127 + 6 - exponent) << 23);
    const float own_weight = own.halves[h / 2].weights[h % 2];
    const float weight = own_weight * __uint_as_float((exponent - 6 + 22) << 23);
    const unsigned place = __float_as_uint(weight) >> 23 & 255U;
    fits = fits && (own_weight == 0.0F || (place >= weight_least && place <= weight_most));
    integers.weights[h] = weight;
#pragma unroll
    for (int b = 0; b < blocks; ++b) {
      const auto& pair = own.halves[h / 2].queries[b];
      const std::uint32_t words[4] = {pair[0][h % 2], pair[0][2 + h % 2], pair[1][h % 2], pair[1][2 + h % 2]};
      float low[4], high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low[i] = fmaf(__uint_as_float(words[i] << 16), per_unit, large);
        high[i] = fmaf(__uint_as_float(words[i] & 0xFFFF0000U), per_unit, large);
      }
      integers.queries[b][h / 2][h % 2] = low_bytes(low);
      integers.queries[b][h / 2][2 + h % 2] = low_bytes(high);
    }
  }
  return fits;
}

// What a key's integers are multiples of.
struct KeyUnit {
  unsigned scale;    // its least one; 128 where the key is zero, which has any unit
  unsigned octaves;  // of all scales above it; more than octaves_most where the key does not fit
};

// The same for the four lanes of a key; all lanes of the warp take part.
__device__ __forceinline__ KeyUnit find_unit(const KeyCodes& codes) {
  const auto [digits, least, most] = span_of(codes);
  const unsigned lanes_of_key = 15U << (threadIdx.x % warp_size / 4 * 4);
  if ((__ballot_sync(full_warp, digits != 0) & lanes_of_key) == 0) return {128, 0};
  return {least, least < unit_least || least > unit_most ? octaves_most + 1 : most - least};
}

// Of the unit, two of which are the least scale.
__device__ __forceinline__ float unit_value(const KeyUnit& unit) {
  return __uint_as_float((unit.scale - 1) << 23);
}

// Magnitudes of up to 127, made negative where `signs` has ones.
__device__ __forceinline__ std::uint32_t with_signs(std::uint32_t magnitudes, std::uint32_t signs) {
  return ((magnitudes ^ (signs & 0x7F7F7F7FU)) + (signs & 0x01010101U)) ^ (signs & 0x80808080U);
}

// The eight codes of a word, moved left by `octaves`: two words of four integers.
__device__ __forceinline__ uint2 decode_integers(std::uint32_t word, unsigned octaves) {
  const std::uint32_t small = 0x03020100U << octaves, large = 0x0C080604U << octaves;  // of codes 0 to 3 and 4 to 7
  const std::uint32_t magnitudes = word & 0x77777777U, even = word << 4;
  return {with_signs(__byte_perm(small, large, magnitudes), sign_bytes(even, word, 0xD9C8)),
          with_signs(__byte_perm(small, large, magnitudes >> 16), sign_bytes(even, word, 0xFBEA))};
}

// The key fits.
__device__ __forceinline__ IntegerTile decode_integers(const KeyCodes& codes, const KeyUnit& unit) {
  IntegerTile tile;
#pragma unroll
  for (int b = 0; b < blocks; b += 2) {
    // The scales of a zero key say nothing; its digits are zero wherever they are moved.
    const uint2 first = decode_integers(codes.words[b], ((codes.scales >> (8 * b)) - unit.scale) & 3U);
    const uint2 second = decode_integers(codes.words[b + 1], ((codes.scales >> (8 * b + 8)) - unit.scale) & 3U);
    tile.words[b / 2] = make_uint4(first.x, first.y, second.x, second.y);
  }
  return tile;
}

// Lane g of the order for keys 2p and 2p + 1 of the tile, in the keys' units.
__device__ __forceinline__ void add_heads(const IntegerHeads& own, const IntegerTile& tile, float (&lane)[2]) {
  std::uint32_t sums[2][4];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[m][i] = sum_begin;
  }
#pragma unroll
  for (int b = 0; b < blocks; ++b) {
    const uint4 keys = tile.words[b / 2];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      multiply_add_s8(sums[m], own.queries[b][m], b % 2 == 0 ? keys.x : keys.z, b % 2 == 0 ? keys.y : keys.w);
    }
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    lane[c] = 0;
#pragma unroll
    for (int h = 0; h < 4; ++h) {
      const float sum = __uint_as_float(sums[h / 2][2 * (h % 2) + c]);
      lane[c] = fmaf(own.weights[h], add_saturated(sum, -3.0F), lane[c]);
    }
  }
}

}  // namespace tandem::gpu::cuda::indexing
