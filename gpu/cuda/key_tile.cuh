// A block of decoded keys in shared memory: where its values lie and how records get there.
//
// A word holds two channels of a key, 16 apart: word 16 i + l has channels l + 32 i and l + 32 i + 16. So the 16 lanes
// of a dot product read neighbouring words, and two channels at once in the order of their lane. Words are two bf16
// numbers (every dequantised value is one) or, for records that are not quantised, two f32.
#pragma once

#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/records.cuh"

namespace tandem::gpu::cuda {

inline constexpr int key_block = 64;

struct TileShape {
  int dim = 0;     // channels of a key
  int words = 0;   // of a key, channels rounded up to 32
  int stride = 0;  // words from one key to the next: two neighbouring keys lie on different banks
};

inline TileShape tile_shape(int dim) {
  TileShape shape;
  shape.dim = dim;
  shape.words = (dim + 31) / 32 * 16;
  shape.stride = shape.words % 32 == 0 ? shape.words + 16 : shape.words;
  return shape;
}

__device__ inline int channel_of(int word, int half) {
  return word / lanes * 2 * lanes + half * lanes + word % lanes;
}

__device__ inline float2 unpacked(unsigned word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000U)};
}
__device__ inline float2 unpacked(float2 word) {
  return word;
}
__device__ inline unsigned bf16_bits(float value) {
  return __float_as_uint(value) >> 16;  // exact: the value is a bf16 number
}
__device__ inline void store(float low, float high, unsigned* word) {
  *word = bf16_bits(low) | bf16_bits(high) << 16;
}
__device__ inline void store(float low, float high, float2* word) {
  *word = {low, high};
}

struct KeyFormats {
  RecordFormat window, entry;
};

// Keys of a row: its window and the entries in front of the first -1. All threads of the block take part.
__device__ inline std::int64_t count_keys(const KeySource& keys, int& shared) {
  if (threadIdx.x == 0) shared = static_cast<int>(keys.selected_most);
  __syncthreads();
  for (int i = threadIdx.x; i < keys.selected_most; i += blockDim.x) {
    if (keys.selected[i] < 0) atomicMin(&shared, i);
  }
  __syncthreads();
  return keys.window_count + shared;
}

// places[i] = the record of key first + i, for those of the next 64 that exist. Uses the first 64 threads.
__device__ inline void find_records(const KeySource& keys, const KeyFormats& formats, int dim, std::int64_t first,
                                    std::int64_t total, const std::byte** places) {
  const std::int64_t key = first + threadIdx.x;
  if (threadIdx.x >= key_block || key >= total) return;
  if (key < keys.window_count) {
    const std::int64_t slot = (keys.window_first + key) % keys.ring_slots;
    places[threadIdx.x] = keys.ring + slot * bytes_of_record(formats.window, dim);
    return;
  }
  const std::int32_t entry = keys.selected[key - keys.window_count];
  const std::int64_t at = std::int64_t{keys.pages[entry / page_entries]} * page_entries + entry % page_entries;
  places[threadIdx.x] = keys.pool + at * bytes_of_record(formats.entry, dim);
}

__device__ inline float value_of(RecordFormat format, const std::byte* record, int n, int i) {
  if (i >= n) return 0.0F;
  switch (format) {
    case RecordFormat::f32:
      return record_value<RecordFormat::f32>(record, n, i);
    case RecordFormat::w8:
      return record_value<RecordFormat::w8>(record, n, i);
    case RecordFormat::n4:
      return record_value<RecordFormat::n4>(record, n, i);
    case RecordFormat::x4:
      return record_value<RecordFormat::x4>(record, n, i);
  }
  return 0.0F;
}

// Any record of any size, a word a thread.
template <class Word>
__device__ void decode_key(RecordFormat format, const std::byte* record, const TileShape& shape, Word* key) {
  for (int word = threadIdx.x % warp_size; word < shape.words; word += warp_size) {
    store(value_of(format, record, shape.dim, channel_of(word, 0)),
          value_of(format, record, shape.dim, channel_of(word, 1)), key + word);
  }
}

// Decodes the `count` records at `places` into the tile, a warp a record; the first `in_window` are window records.
template <class Word>
__device__ void decode_keys(const std::byte* const* places, const KeyFormats& formats, int in_window, int count,
                            const TileShape& shape, Word* tile) {
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  for (int t = static_cast<int>(threadIdx.x) / warp_size; t < count; t += warps) {
    decode_key(t < in_window ? formats.window : formats.entry, places[t], shape, tile + t * shape.stride);
  }
}

}  // namespace tandem::gpu::cuda
