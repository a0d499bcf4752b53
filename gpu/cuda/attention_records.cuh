// Tiles of 64 records decoded for many rows: what decode_slabs of attention_tile.cuh does, in fewer instructions where
// all records of a tile have one format. The same bits.
#pragma once

#include "gpu/cuda/attention_tile.cuh"

namespace tandem::gpu::cuda {

// A lane's 16 neighbouring channels of a record, which share a scale.
struct N4Part {
  uint2 codes;
  std::uint8_t scale;

  __device__ void load(const std::byte* record, int lane) {
    codes = reinterpret_cast<const uint2*>(record)[lane];
    scale = reinterpret_cast<const std::uint8_t*>(record)[wide_dim / 2 + lane];
  }
  __device__ unsigned scales() const { return scale_pair(scale); }
  __device__ uint4 decode(bool upper, unsigned scales) const {
    return decode_e2m1_chunk(upper ? codes.y : codes.x, scales);
  }
};

struct W8Part {
  uint4 codes;
  std::uint8_t scale;

  __device__ void load(const std::byte* record, int lane) {
    codes = reinterpret_cast<const uint4*>(record)[lane];
    scale = reinterpret_cast<const std::uint8_t*>(record)[wide_dim + lane / 2];
  }
  __device__ unsigned scales() const {
    const float value = e8m0_to_float(scale);
    return packed(value, value);
  }
  __device__ uint4 decode(bool upper, unsigned scales) const {
    const unsigned low = upper ? codes.z : codes.x, high = upper ? codes.w : codes.y;
    return {pair(low, 0x1404, scales), pair(low, 0x3424, scales), pair(high, 0x1404, scales),
            pair(high, 0x3424, scales)};
  }
  // Moved into a bf16, an e4m3 reads 2^-120 times its value, subnormal or not; then the scale. Both products are exact.
  // A broken group has a NaN for a scale.
  static __device__ unsigned pair(unsigned codes, unsigned bytes, unsigned scales) {
    constexpr unsigned lift = 0x7B807B80U;  // 2^120 twice
    const unsigned upper = __byte_perm(codes, 0, bytes);
    return multiply_bf16(multiply_bf16((upper >> 4 & 0x07F007F0U) | (upper & 0x80008000U), lift), scales);
  }
};

// decode_slabs of records of one format. Every other four lanes begin with their upper chunk, so that eight lanes write
// to different banks.
template <int warps, class Part, int ahead>
__device__ void decode_parts(const std::byte* const* places, int count, unsigned char* slabs) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const bool turns = lane / 4 % 2 != 0;
  unsigned char* first_chunk = slabs + slab_place(key_block, warp, 2 * lane + (turns ? 1 : 0));
  unsigned char* second_chunk = slabs + slab_place(key_block, warp, 2 * lane + (turns ? 0 : 1));
  static_assert(warps % 8 == 0, "the records of a warp have one permutation of chunks");
#pragma unroll
  for (int first = 0; first < key_block / warps; first += ahead) {
    Part parts[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) parts[a].load(places[min(warp + (first + a) * warps, count - 1)], lane);
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const unsigned scales = warp + (first + a) * warps < count ? parts[a].scales() : 0;
      const int at = (first + a) * warps * slab_row;
      *reinterpret_cast<uint4*>(first_chunk + at) = parts[a].decode(turns, scales);
      *reinterpret_cast<uint4*>(second_chunk + at) = parts[a].decode(!turns, scales);
    }
  }
}

// A tile whose first `window` keys, if that is more than none, are window records.
template <int warps>
__device__ void decode_tile(const std::byte* const* places, const KeyFormats& formats, int window, int count,
                            unsigned char* tile) {
  if (window <= 0 && formats.entry == RecordFormat::n4) {
    decode_parts<warps, N4Part, 4>(places, count, tile);
  } else if (window >= count && formats.window == RecordFormat::w8) {
    decode_parts<warps, W8Part, 4>(places, count, tile);
  } else {
    decode_slabs<key_block, 4>(places, formats, window, count, tile);
  }
}

}  // namespace tandem::gpu::cuda
