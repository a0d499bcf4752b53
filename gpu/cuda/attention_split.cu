// Attention of few rows: the same numbers as attention_kernels.cu, cut over the whole device.
//
//   scores   s_t = (q . k_t) d^-0.5              16 keys and 8 heads a block
//   values   softmax over the scores, then o = sum_t bf16(p_t) k_t / (..)   4 heads and 64 channels a block
//
// Shapes   d = 512; window records W8, entries N4 or W8; up to 128 + 512 keys a row.
// Work     queries turn on the way in and outputs on the way out where angles are given. Blocks of keys are softened
// side
//          by side (every block of values repeats that for its heads); chains remain where they must: the sum of the
//          blocks' sums, and one of multiply-adds a channel.
// Order    that of attention_kernels.cu: 64-key blocks from the row's own first key, dots in 16 lanes, values
//          ascending. So both give the same bits.
// Bytes    a key's record once a block of scores, a slice of it once a block of values, from the second-level cache.
// Limit    640 dependent multiply-adds and the latency of two launches: some 10 us.
// Plain    gpu/cpu/attention_ops.cpp; the test is bit equality.
#include <cfloat>

#include "gpu/cuda/angle.cuh"
#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/key_tile.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr std::int64_t heads_most = 1024;  // rows * heads: with more, one block a row fills the device

__device__ const std::byte* record_of(const KeySource& keys, const KeyFormats& formats, std::int64_t key) {
  if (key < keys.window_count) {
    // Positions and slots fit 32 bits, whose remainder is far cheaper.
    const auto slot = static_cast<unsigned>(keys.window_first + key) % static_cast<unsigned>(keys.ring_slots);
    return keys.ring + slot * bytes_of_record(formats.window, wide_dim);
  }
  const std::int32_t entry = keys.selected[key - keys.window_count];
  const std::int64_t at = std::int64_t{keys.pages[entry / page_entries]} * page_entries + entry % page_entries;
  return keys.pool + at * bytes_of_record(formats.entry, wide_dim);
}

// Channel `channel` of a lane whose neighbour has the partner; whole warps.
__device__ float turned(const RowAngle& angle, int channel, float own, bool inverse, bool round) {
  const float other = __shfl_xor_sync(full_warp, own, 1);
  const float value = rotated(angle, channel, wide_dim, own, other, inverse);
  return is_rotated(angle, channel, wide_dim) ? rounded(value, round) : own;
}

// ---- scores ----

constexpr int score_warps = 8;  // heads of a block
constexpr int score_keys = 16;  // keys of a block: few, because a block waits four times for memory before it computes
constexpr int score_threads = score_warps * warp_size;
constexpr int keys_abreast = 4;  // dots of a half-warp side by side
constexpr int wide_pairs = wide_dim / (2 * lanes);

// Rotates channels 16 i .. 16 i + 15 of the query.
__device__ void turn_query(const RowAngle& angle, int i, bool round, float& q) {
  if (!is_rotated(angle, i * lanes + lanes - 1, wide_dim)) return;
  q = turned(angle, i * lanes + static_cast<int>(threadIdx.x) % lanes, q, false, round);
}

// scores[t] of one head for the tile's keys; a half-warp takes every other group of four.
__device__ void score_tile(const float (&q)[2 * wide_pairs], const unsigned* tile, int stride, int count, float scale,
                           float* scores) {
  const int lane = threadIdx.x % lanes, half = threadIdx.x / lanes % 2;
  for (int first = half * keys_abreast; first < score_keys; first += 2 * keys_abreast) {
    float sum[keys_abreast] = {};
#pragma unroll
    for (int i = 0; i < wide_pairs; ++i) {
#pragma unroll
      for (int k = 0; k < keys_abreast; ++k) {
        const int t = first + k < count ? first + k : count - 1;
        const float2 pair = unpacked(tile[t * stride + i * lanes + lane]);
        sum[k] = fmaf(q[2 * i], pair.x, sum[k]);
        sum[k] = fmaf(q[2 * i + 1], pair.y, sum[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < keys_abreast; ++k) {
      const float score = add_lanes(sum[k]) * scale;
      if (lane == 0 && first + k < count) scores[first + k] = score;
    }
  }
}

__global__ void __launch_bounds__(score_threads) score_keys_kernel(AttendCall call, float scale, TileShape shape) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ const std::byte* places[score_keys];
  __shared__ int selected;
  auto* tile = reinterpret_cast<unsigned*>(memory);
  const KeySource keys = call.rows[blockIdx.x];
  const KeyFormats formats{call.window_format, call.entry_format};
  const std::int64_t total = count_keys(keys, selected), first = blockIdx.y * std::int64_t{score_keys};
  if (first >= total) return;
  const int count = static_cast<int>(total - first < score_keys ? total - first : score_keys);
  if (static_cast<int>(threadIdx.x) < count) places[threadIdx.x] = record_of(keys, formats, first + threadIdx.x);
  const int number = static_cast<int>(blockIdx.z) * score_warps + static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t head = number < call.heads ? number : call.heads - 1;
  const float* query = row_of(call.q, blockIdx.x) + head * wide_dim;
  const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
  float q[2 * wide_pairs];
#pragma unroll
  for (int i = 0; i < 2 * wide_pairs; ++i) q[i] = query[i * lanes + static_cast<int>(threadIdx.x) % lanes];
#pragma unroll
  for (int i = 0; i < 2 * wide_pairs; ++i) turn_query(angle, i, call.round, q[i]);
  __syncthreads();
  const int in_window = static_cast<int>(max(std::int64_t{0}, min(keys.window_count - first, std::int64_t{count})));
  decode_keys(places, formats, in_window, count, shape, tile);
  __syncthreads();
  score_tile(q, tile, shape.stride, count, scale,
             row_of(call.scores, blockIdx.x * std::int64_t{call.heads} + head) + first);
}

// ---- values ----

constexpr int value_warps = 4;  // heads of a block
constexpr int value_threads = value_warps * warp_size;
constexpr int slice_channels = 64;                    // of a block: a word of two channels a lane
constexpr int slice_stride = slice_channels / 2 + 1;  // words from key to key: two threads a key, no bank twice
constexpr int blocks_most = 16;                       // of 64 keys
static_assert(value_threads == 2 * key_block, "two threads decode a key's slice");

struct ValueShared {
  unsigned tile[2][key_block * slice_stride];
  float keep[value_warps][blocks_most];
  int selected;
};

// 32 neighbouring channels of a record as they lie there.
struct RawSlice {
  uint4 codes[2];
  float scale[2];
};

__device__ RawSlice load_slice(RecordFormat format, const std::byte* record, int first_channel) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(record);
  const int group = first_channel / 16;
  RawSlice raw;
  if (format == RecordFormat::w8) {
    const auto* from = reinterpret_cast<const uint4*>(codes) + group;
    raw.codes[0] = from[0];
    raw.codes[1] = from[1];
    raw.scale[0] = e8m0_to_float(codes[wide_dim + first_channel / 32]);
    raw.scale[1] = raw.scale[0];
    return raw;
  }
  const uint4 nibbles = reinterpret_cast<const uint4*>(codes)[group / 2];
  raw.codes[0] = make_uint4(nibbles.x, nibbles.y, 0, 0);
  raw.codes[1] = make_uint4(nibbles.z, nibbles.w, 0, 0);
  raw.scale[0] = decode_e4m3_pair(codes[wide_dim / 2 + group]).x;
  raw.scale[1] = decode_e4m3_pair(codes[wide_dim / 2 + group + 1]).x;
  return raw;
}

__device__ void store_slice(RecordFormat format, const RawSlice& raw, unsigned* words) {
  unsigned low[16], high[16];
  decode_part(format, {raw.codes[0], raw.scale[0]}, low);
  decode_part(format, {raw.codes[1], raw.scale[1]}, high);
#pragma unroll
  for (int j = 0; j < 16; ++j) words[j] = low[j] | high[j] << 16;
}

// Turns the scores of one head into rounded exps. Returns the factor of all sums; keep[b] is that of the sums before
// block b. One warp, lane b for the numbers of block b.
//
// A block needs the maxima before it and nothing else of the others: maxima, exps and sums of all blocks are made side
// by side, and only the sum of the sums goes from block to block.
__device__ float soften_row(float* p, int total, float sink, bool round, float* keep) {
  static_assert(key_block == 2 * warp_size && blocks_most <= warp_size);
  const int lane = static_cast<int>(threadIdx.x) % warp_size, blocks = (total + key_block - 1) / key_block;
  float most = -FLT_MAX;  // finite: -inf would make NaN of -inf - -inf
#pragma unroll 4
  for (int b = 0; b < blocks; ++b) {
    const int t = b * key_block + lane;
    float own = t < total ? fmaxf(-FLT_MAX, p[t]) : -FLT_MAX;
    if (t + warp_size < total) own = fmaxf(own, p[t + warp_size]);
    for (int step = warp_size / 2; step > 0; step /= 2) own = fmaxf(own, __shfl_xor_sync(full_warp, own, step));
    if (lane == b) most = own;
  }
  for (int step = 1; step < blocks_most; step *= 2) {
    const float before = __shfl_up_sync(full_warp, most, step);
    if (lane >= step) most = fmaxf(most, before);
  }
  const float before = __shfl_up_sync(full_warp, most, 1);
  const float factor = exponential((lane == 0 ? -FLT_MAX : before) - most);
  if (lane < blocks) keep[lane] = factor;
#pragma unroll 4
  for (int first = 0; first < total; first += warp_size) {
    const float highest = __shfl_sync(full_warp, most, first / key_block);
    if (first + lane < total) p[first + lane] = exponential(p[first + lane] - highest);
  }
  __syncwarp();
  float sum = 0;
#pragma unroll 4
  for (int b = 0; b < blocks; ++b) {
    const int end = total - b * key_block < key_block ? total - b * key_block : key_block;
    float own = 0;
    for (int t = lane % lanes; t < end; t += lanes) own += p[b * key_block + t];
    own = add_lanes(own);
    if (lane == b) sum = own;
  }
  __syncwarp();
#pragma unroll 4
  for (int t = lane; t < total; t += warp_size) p[t] = rounded(p[t], round);
  float sum_of_all = 0;
  for (int b = 0; b < blocks; ++b) {
    sum_of_all = sum_of_all * __shfl_sync(full_warp, factor, b) + __shfl_sync(full_warp, sum, b);
  }
  __syncwarp();
  const float last = __shfl_sync(full_warp, most, blocks > 0 ? blocks - 1 : 0);
  return 1.0F / (sum_of_all + exponential(sink - last));
}

// The records of all keys of a row: those of entries four at a time, since each needs two loads in a row.
__device__ void find_places(const KeySource& keys, const KeyFormats& formats, int total, const std::byte** places) {
  const int window = static_cast<int>(keys.window_count), own = static_cast<int>(threadIdx.x);
  for (int t = own; t < window && t < total; t += value_threads) places[t] = record_of(keys, formats, t);
  constexpr int ahead = 4;
  for (int first = window + own; first < total; first += ahead * value_threads) {
    std::int32_t entries[ahead];
    std::int64_t at[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int t = first + a * value_threads;
      entries[a] = keys.selected[(t < total ? t : total - 1) - window];
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      at[a] = std::int64_t{keys.pages[entries[a] / page_entries]} * page_entries + entries[a] % page_entries;
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int t = first + a * value_threads;
      if (t < total) places[t] = keys.pool + at[a] * bytes_of_record(formats.entry, wide_dim);
    }
  }
}

// Adds p_t k_t of the tile's keys to two channels, ascending; four exps are read at once.
__device__ void add_keys(const unsigned* tile, const float* p, int count, float (&out)[2]) {
  const auto add = [&](float weight, unsigned word) {
    const float2 pair = unpacked(word);
    out[0] = fmaf(weight, pair.x, out[0]);
    out[1] = fmaf(weight, pair.y, out[1]);
  };
  int t = 0;
#pragma unroll 4
  for (; t + 4 <= count; t += 4) {
    const float4 weights = *reinterpret_cast<const float4*>(p + t);
    const unsigned* word = tile + t * slice_stride;
    const unsigned words[4] = {word[0], word[slice_stride], word[2 * slice_stride], word[3 * slice_stride]};
    add(weights.x, words[0]);
    add(weights.y, words[1]);
    add(weights.z, words[2]);
    add(weights.w, words[3]);
  }
  for (; t < count; ++t) add(p[t], tile[t * slice_stride]);
}

__global__ void __launch_bounds__(value_threads) add_values_kernel(AttendCall call) {
  begin_dependent();
  extern __shared__ __align__(
      16) unsigned char memory[];  // places [keys_most], then exps [heads of the block, keys_most]
  __shared__ ValueShared shared;
  auto** places = reinterpret_cast<const std::byte**>(memory);
  auto* exps = reinterpret_cast<float*>(places + call.keys_most);
  const KeySource keys = call.rows[blockIdx.x];
  const KeyFormats formats{call.window_format, call.entry_format};
  const std::int64_t total = count_keys(keys, shared.selected);
  find_places(keys, formats, static_cast<int>(total), places);
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const int number = static_cast<int>(blockIdx.y) * value_warps + warp;
  const std::int64_t head = number < call.heads ? number : call.heads - 1;
  float* p = exps + warp * call.keys_most;
  const float* scores = row_of(call.scores, blockIdx.x * std::int64_t{call.heads} + head);
#pragma unroll 8
  for (int t = lane; t < static_cast<int>(total); t += warp_size) p[t] = scores[t];
  __syncwarp();
  const float factor = soften_row(p, static_cast<int>(total), call.sink[head], call.round, shared.keep[warp]);
  __syncthreads();

  // Two threads a key bring its slice into the tile: word 16 i + l holds channels 32 i + l and 32 i + l + 16.
  const int own_key = static_cast<int>(threadIdx.x) / 2, part = static_cast<int>(threadIdx.x) % 2;
  const int own_channel = static_cast<int>(blockIdx.z) * slice_channels + part * 32;
  const auto format_of = [&](std::int64_t key) { return key < keys.window_count ? formats.window : formats.entry; };
  const auto load = [&](std::int64_t first) {
    const std::int64_t key = first + own_key < total ? first + own_key : total - 1;
    return load_slice(format_of(key), places[key], own_channel);
  };
  float out[2] = {};
  RawSlice next;
  if (total > 0) next = load(0);
  for (std::int64_t first = 0; first < total; first += key_block) {
    const int block = static_cast<int>(first / key_block);
    const int count = static_cast<int>(total - first < key_block ? total - first : key_block);
    unsigned* tile = shared.tile[block % 2];
    const std::int64_t key = first + own_key < total ? first + own_key : total - 1;
    store_slice(format_of(key), next, tile + own_key * slice_stride + part * 16);
    __syncthreads();  // the tile is complete, and nobody reads the other one any more
    if (first + key_block < total) next = load(first + key_block);
    out[0] *= shared.keep[warp][block];
    out[1] *= shared.keep[warp][block];
    add_keys(tile + lane, p + first, count, out);
  }
  if (number >= call.heads) return;
  float* to = row_of(call.out, blockIdx.x) + head * wide_dim + static_cast<std::int64_t>(blockIdx.z) * slice_channels;
  const int column = lane / lanes * 2 * lanes + lane % lanes;
  float results[2] = {rounded(factor * out[0], call.round), rounded(factor * out[1], call.round)};
  const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
  const int channel = static_cast<int>(blockIdx.z) * slice_channels + column;
  if (is_rotated(angle, static_cast<int>(blockIdx.z + 1) * slice_channels - 1, wide_dim)) {
    results[0] = turned(angle, channel, results[0], true, call.round);
    results[1] = turned(angle, channel + lanes, results[1], true, call.round);
  }
  to[column] = results[0];
  to[column + lanes] = results[1];
}

bool is_quantised(RecordFormat format) {
  return format == RecordFormat::w8 || format == RecordFormat::n4;
}

}  // namespace

bool is_split(const AttendCall& call) {
  return call.head_dim == wide_dim && is_quantised(call.window_format) && is_quantised(call.entry_format) &&
         call.q.rows * call.heads <= heads_most && call.keys_most <= blocks_most * key_block;
}

cudaError_t attend_split(cudaStream_t stream, const AttendCall& call) {
  const TileShape shape = tile_shape(wide_dim);
  const std::size_t score_bytes = score_keys * static_cast<std::size_t>(shape.stride) * sizeof(unsigned);
  cudaError_t status = cudaFuncSetAttribute(score_keys_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(score_bytes));
  if (status != cudaSuccess) return status;
  const auto rows = static_cast<unsigned>(call.q.rows), heads = static_cast<unsigned>(call.heads);
  const dim3 score_grid(rows, static_cast<unsigned>((call.keys_most + score_keys - 1) / score_keys),
                        (heads + score_warps - 1) / score_warps);
  const float scale = static_cast<float>(1.0 / sqrt(static_cast<double>(wide_dim)));
  status = launch_dependent(stream, {score_grid, score_threads, 1, score_bytes}, score_keys_kernel, call, scale, shape);
  if (status != cudaSuccess) return status;
  const std::size_t value_bytes =
      static_cast<std::size_t>(call.keys_most) * (sizeof(const std::byte*) + value_warps * sizeof(float));
  const dim3 value_grid(rows, (heads + value_warps - 1) / value_warps, wide_dim / slice_channels);
  return launch_dependent(stream, {value_grid, value_threads, 1, value_bytes}, add_values_kernel, call);
}

}  // namespace tandem::gpu::cuda
