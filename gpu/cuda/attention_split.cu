// Attention of few rows on matrix units: the same bits as attention_matrix.cu, cut over the whole device.
//
//   scores   s_t = (q . k_t) d^-0.5                               16 keys and 16 heads a block
//   values   softmax over the scores, then o = sum_t bf16(p_t) k_t / (..)   8 heads and 32 channels a block
//
// Shapes   q, out [T, heads * 512]; window records W8, entries N4 or W8; up to 640 keys a row.
// Work     a warp scores 8 keys in one of the two chains of a dot product. Every block of values repeats the softmax of
//          its heads, a warp a head, and adds 8 channels a warp.
// Order    attention_tile.cuh.
// Bytes    a key's record twice in blocks of scores, a slice of it four times in blocks of values, from the
//          second-level cache.
// Limit    loads in a row (row, entry, page, record) and the chain over 40 matrix instructions a channel: latency.
// Start    where all keys are older than the kernel in front (begins_early), scores read them while it runs; values
//          read their slices while the scores are made. Both have angles before they wait.
#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/attention_query.cuh"
#include "gpu/cuda/attention_tile.cuh"
#include "gpu/cuda/dependent.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr std::int64_t heads_most = 1024;  // rows * heads: with more, one block a row fills the device
constexpr int tiles_most = 10;             // of 64 keys
constexpr int threads = 256;

// Positions and slots fit 32 bits, whose remainder is far cheaper.
__device__ const std::byte* window_record(const KeySource& keys, const KeyFormats& formats, std::int64_t key) {
  const auto slot = static_cast<unsigned>(keys.window_first + key) % static_cast<unsigned>(keys.ring_slots);
  return keys.ring + slot * bytes_of_record(formats.window, wide_dim);
}

__device__ const std::byte* record_of(const KeySource& keys, const KeyFormats& formats, std::int64_t key) {
  if (key < keys.window_count) return window_record(keys, formats, key);
  const std::int32_t entry = keys.selected[key - keys.window_count];
  const std::int64_t at = std::int64_t{keys.pages[entry / page_entries]} * page_entries + entry % page_entries;
  return keys.pool + at * bytes_of_record(formats.entry, wide_dim);
}

// ---- scores ----

constexpr int score_keys = 16;  // keys of a block: few, because a block waits four times for memory before it computes
constexpr int scoring_warps = 4;  // two for 8 keys each, times two chains

struct ScoreShared {
  alignas(16) unsigned char queries[matrix_heads * wide_dim * 2];
  alignas(16) unsigned char keys[score_keys * wide_dim * 2];
  float odd[2][warp_size][4];
  const std::byte* places[score_keys];
  int selected;
};

// One chain of the dot products of 16 heads and 8 keys.
__device__ void add_chain(const ScoreShared& shared, int eight, int chain, float (&sum)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int query = slab_place(matrix_heads, lane % 16, lane / 16);
  // Matrices of two steps of this chain: channels 0 .. 15 and 32 .. 47 behind its first.
  const int key = slab_place(score_keys, eight * 8 + lane % 8, lane / 8 % 2 + lane / 16 * 4);
#pragma unroll
  for (int slab = 0; slab < score_steps / 4; ++slab) {
    unsigned b[4], low[4], high[4];
    const unsigned char* queries = shared.queries + slab * matrix_heads * slab_row;
    load_matrices(b, shared.keys + slab * score_keys * slab_row + (key ^ (chain * 32)));
    load_matrices(low, queries + (query ^ (chain * 32)));
    load_matrices(high, queries + (query ^ (chain * 32 + 64)));
    multiply_add_bf16(sum, low, b[0], b[1]);
    multiply_add_bf16(sum, high, b[2], b[3]);
  }
}

__global__ void __launch_bounds__(threads, 4) score_keys_kernel(AttendCall call, float scale) {
  const int first_head = static_cast<int>(blockIdx.z) * matrix_heads;
  const KeySource keys = call.rows[blockIdx.x];
  const QueryPart<threads> queries(call, first_head);
  // The next kernel may start when all that wrote keys have ended: it reads those before it waits itself.
  if (!call.begins_early) wait_for_earlier_kernels();
  let_next_kernel_start();
  __shared__ ScoreShared shared;
  const KeyFormats formats{call.window_format, call.entry_format};
  if (!call.begins_early) queries.load(shared.queries);
  const std::int64_t total = count_keys(keys, shared.selected), first = blockIdx.y * std::int64_t{score_keys};
  if (first >= total) {
    if (call.begins_early) wait_for_earlier_kernels();
    return;
  }
  const int count = static_cast<int>(total - first < score_keys ? total - first : score_keys);
  if (static_cast<int>(threadIdx.x) < count) shared.places[threadIdx.x] = record_of(keys, formats, first + threadIdx.x);
  __syncthreads();
  const int in_window = static_cast<int>(max(std::int64_t{0}, min(keys.window_count - first, std::int64_t{count})));
  decode_slabs<score_keys, 2>(shared.places, formats, in_window, count, shared.keys);
  if (call.begins_early) {
    wait_for_earlier_kernels();
    queries.load(shared.queries);
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const int eight = warp / 2 % 2, chain = warp % 2;
  float sum[4] = {};
  if (warp < scoring_warps) add_chain(shared, eight, chain, sum);
  if (warp < scoring_warps && chain == 1) {
    for (int c = 0; c < 4; ++c) shared.odd[eight][lane][c] = sum[c];
  }
  __syncthreads();
  if (warp >= scoring_warps || chain == 1) return;
  for (int upper = 0; upper < 2; ++upper) {
    const int head = first_head + upper * 8 + lane / 4;
    if (head >= call.heads) continue;
    const float* odd = shared.odd[eight][lane] + 2 * upper;
    float* scores = row_of(call.scores, blockIdx.x * std::int64_t{call.heads} + head) + first;
    *reinterpret_cast<float2*>(scores + eight * 8 + lane % 4 * 2) = {(sum[2 * upper] + odd[0]) * scale,
                                                                     (sum[2 * upper + 1] + odd[1]) * scale};
  }
}

// ---- values ----

constexpr int value_heads = 8;      // of a block: half a matrix tile, so that a warp softens one head
constexpr int slice_channels = 32;  // of a block: 8 for each of its adding warps
constexpr int slice_row = slice_channels * 2;
constexpr int adding_warps = slice_channels / 8;
constexpr int keys_of_thread = (tiles_most * key_block + threads - 1) / threads;

struct ValueShared {
  float keep[tiles_most][value_heads];  // factor of the sums before the tile
  float factor[value_heads];
  int selected;
};

// Byte of chunk `chunk` of a key's slice; eight neighbouring keys lie on different banks.
__device__ int slice_place(int key, int chunk) {
  return key * slice_row + ((chunk ^ (key / 2)) & 3) * 16;
}

// Records of a thread's keys t, t + 256, .., of the last key behind it. Loads of one kind are in flight together, since
// each key needs three in a row.
__device__ void find_places(const KeySource& keys, const KeyFormats& formats, int total,
                            const std::byte* (&places)[keys_of_thread]) {
  const int window = static_cast<int>(keys.window_count);
  std::int32_t entries[keys_of_thread] = {}, pages[keys_of_thread] = {};
  if (total > window) {
#pragma unroll
    for (int k = 0; k < keys_of_thread; ++k) {
      const int t = static_cast<int>(threadIdx.x) + k * threads;
      entries[k] = keys.selected[max(min(t, total - 1) - window, 0)];
    }
#pragma unroll
    for (int k = 0; k < keys_of_thread; ++k) pages[k] = keys.pages[entries[k] / page_entries];
  }
#pragma unroll
  for (int k = 0; k < keys_of_thread; ++k) {
    const int t = min(static_cast<int>(threadIdx.x) + k * threads, total - 1);
    const std::int64_t at = std::int64_t{pages[k]} * page_entries + entries[k] % page_entries;
    const std::byte* entry = keys.pool + at * bytes_of_record(formats.entry, wide_dim);
    places[k] = t < window ? window_record(keys, formats, t) : entry;
  }
}

// A slice of 32 channels as it lies in a record: W8 32 bytes and a scale, N4 16 bytes and two scales.
struct RawSlice {
  uint4 codes[2];
  std::uint8_t scales[2];
};

// In as few loads as there can be: each touches as many lines as there are keys in a warp.
__device__ RawSlice load_slice(RecordFormat format, const std::byte* record, int slice) {
  const bool is_w8 = format == RecordFormat::w8;
  const auto* words = reinterpret_cast<const uint4*>(record) + (is_w8 ? 2 * slice : slice);
  const auto* scales =
      reinterpret_cast<const std::uint8_t*>(record) + (is_w8 ? wide_dim + slice : wide_dim / 2 + 2 * slice);
  return {{words[0], words[is_w8 ? 1 : 0]}, {scales[0], scales[is_w8 ? 0 : 1]}};
}

__device__ RawChunk chunk_of(RecordFormat format, const RawSlice& raw, int chunk) {
  const uint4 &a = raw.codes[0], &b = raw.codes[1];
  const unsigned words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  if (format == RecordFormat::w8) return {{words[2 * chunk], words[2 * chunk + 1]}, raw.scales[0]};
  return {{words[chunk], 0}, raw.scales[chunk / 2]};
}

// The thread's slices of 32 channels as bf16; zeros behind the last key.
__device__ void load_slices(const KeySource& keys, const KeyFormats& formats, int total, unsigned char* slices) {
  if (total == 0) return;
  const std::byte* places[keys_of_thread];
  find_places(keys, formats, total, places);
  RawSlice raw[keys_of_thread];
  const auto format_of = [&](int t) { return t < keys.window_count ? formats.window : formats.entry; };
#pragma unroll
  for (int k = 0; k < keys_of_thread; ++k) {
    const int t = min(static_cast<int>(threadIdx.x) + k * threads, total - 1);
    raw[k] = load_slice(format_of(t), places[k], static_cast<int>(blockIdx.z));
  }
#pragma unroll
  for (int k = 0; k < keys_of_thread; ++k) {
    const int t = static_cast<int>(threadIdx.x) + k * threads;
    if (t >= (total + key_block - 1) / key_block * key_block) continue;
#pragma unroll
    for (int c = 0; c < slice_channels / 8; ++c) {
      auto* to = reinterpret_cast<uint4*>(slices + slice_place(t, c));
      *to = t < total ? decode_chunk(format_of(t), chunk_of(format_of(t), raw[k], c)) : uint4{};
    }
  }
}

// A head's scores: of every tile keys 2 l and 2 l + 1 in lane l. Those behind the last key are anything.
using HeadScores = float2[tiles_most];

// Numbers in the order of the floats, and back.
__device__ unsigned in_order(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits ^ (bits >> 31 != 0 ? 0xFFFFFFFFU : 0x80000000U);
}
__device__ float from_order(unsigned bits) {
  return __uint_as_float(bits ^ (bits >> 31 != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// Places behind the last tile repeat it.
__device__ void load_scores(const AttendCall& call, int head, HeadScores& scores) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const float* from = row_of(call.scores, blockIdx.x * std::int64_t{call.heads} + head);
#pragma unroll
  for (int b = 0; b < tiles_most; ++b) {
    const auto first = min(std::int64_t{b} * key_block, call.keys_most - key_block);
    scores[b] = reinterpret_cast<const float2*>(from + first)[lane];
  }
}

// The largest score of each tile and those before it, in the tile's lane. No branches: what is done for one tile goes
// on beside the others.
__device__ float running_maxima(const HeadScores& scores, int total) {
  static_assert(tiles_most <= warp_size / 2);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  float most = -FLT_MAX;  // finite: -inf would make NaN of -inf - -inf
#pragma unroll
  for (int b = 0; b < tiles_most; ++b) {
    const int t = b * key_block + 2 * lane;
    const float low = fmaxf(-FLT_MAX, t < total ? scores[b].x : -FLT_MAX);
    const float own = fmaxf(low, t + 1 < total ? scores[b].y : -FLT_MAX);
    const float tile = from_order(__reduce_max_sync(full_warp, in_order(own)));
    most = lane == b ? tile : most;
  }
#pragma unroll
  for (int step = 1; step < tiles_most; step *= 2) {
    const float before = __shfl_up_sync(full_warp, most, step);
    most = lane >= step ? fmaxf(most, before) : most;
  }
  return most;
}

// Sum over a warp in the tree of attention_tile.cuh.
__device__ float add_tile(float own) {
  own += __shfl_xor_sync(full_warp, own, 4);
  own += __shfl_xor_sync(full_warp, own, 1);
  own += __shfl_xor_sync(full_warp, own, 2);
  own += __shfl_xor_sync(full_warp, own, 8);
  return own + __shfl_xor_sync(full_warp, own, 16);
}

// One head's scores become weights [tile][8 heads][64 keys], as slabs. A tile needs the maxima before it and nothing
// else of the others, so all tiles are softened side by side; only the sum of their sums goes from tile to tile. Tiles
// behind the last key weigh nothing: their factor is 1 and their sum 0.
__device__ void soften(const HeadScores& scores, const AttendCall& call, int total, float sink, int head,
                       ValueShared& shared, unsigned char* weights) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const float most = running_maxima(scores, total);
  const float before = __shfl_up_sync(full_warp, most, 1);
  const float keep = weight_of(lane == 0 ? -FLT_MAX : before, most);
  if (lane < tiles_most) shared.keep[lane][head] = keep;
  auto* to = reinterpret_cast<unsigned*>(weights + slab_place(value_heads, head, lane / 4)) + lane % 4;
  float sums[tiles_most];
#pragma unroll
  for (int b = 0; b < tiles_most; ++b) {
    const int t = b * key_block + 2 * lane;
    const float highest = __shfl_sync(full_warp, most, b);
    const float low = t < total ? weight_of(scores[b].x, highest) : 0.0F;
    const float high = t + 1 < total ? weight_of(scores[b].y, highest) : 0.0F;
    sums[b] = add_tile(low + high);
    if (b * key_block < call.keys_most) {
      to[b * value_heads * slab_row / 4] = packed(round_to_bf16(low), round_to_bf16(high));
    }
  }
  float sum = 0;
#pragma unroll
  for (int b = 0; b < tiles_most; ++b) sum = sum * __shfl_sync(full_warp, keep, b) + sums[b];
  const float last = __shfl_sync(full_warp, most, tiles_most - 1);
  if (lane == 0) shared.factor[head] = end_factor(sum, sink, last);
}

// Adds the values of all tiles to 8 heads and the warp's 8 channels; the other half of the matrix repeats the heads.
__device__ void add_values(const unsigned char* weights, const unsigned char* slices, int tiles,
                           const ValueShared& shared, float (&out)[4]) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const int weight = slab_place(value_heads, lane % 8, lane / 16), value = slice_place(lane, warp);
#pragma unroll 2
  for (int tile = 0; tile < tiles; ++tile) {
    const float keep = shared.keep[tile][lane / 4];
    const unsigned char* own = weights + tile * value_heads * slab_row;
#pragma unroll
    for (int c = 0; c < 4; ++c) out[c] *= keep;
#pragma unroll
    for (int step = 0; step < tile_steps; step += 2) {
      unsigned first[4], second[4], b[4];
      load_matrices(first, own + (weight ^ (step * 32)));
      load_matrices(second, own + (weight ^ (step * 32 + 32)));
      load_transposed(b, slices + value + (tile * key_block + step * 16) * slice_row);
      multiply_add_bf16(out, first, b[0], b[1]);
      multiply_add_bf16(out, second, b[2], b[3]);
    }
  }
}

// Brings the values while the scores are still being made.
__global__ void __launch_bounds__(threads) add_values_kernel(AttendCall call) {
  let_next_kernel_start();
  // Slices [keys_most, 32 channels], then weights [keys_most / 64][8 heads][64 keys].
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ ValueShared shared;
  unsigned char *slices = memory, *weights = memory + call.keys_most * slice_row;
  const KeySource keys = call.rows[blockIdx.x];
  const int total = static_cast<int>(count_keys(keys, shared.selected)), tiles = (total + key_block - 1) / key_block;
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const int first_head = static_cast<int>(blockIdx.y) * value_heads, own_head = min(first_head + warp, call.heads - 1);
  const int head = first_head + lane / 4,
            channel = static_cast<int>(blockIdx.z) * slice_channels + warp * 8 + lane % 4 * 2;
  const float sink = call.sink[own_head];
  const PairAngle angle = angle_of_pair(call, channel);
  load_slices(keys, {call.window_format, call.entry_format}, total, slices);
  wait_for_earlier_kernels();
  HeadScores scores;
  load_scores(call, own_head, scores);
  soften(scores, call, total, sink, warp, shared, weights);
  __syncthreads();
  if (warp >= adding_warps) return;
  float out[4] = {};
  add_values(weights, slices, tiles, shared, out);
  if (head < call.heads) store_pair(call, angle, head, channel, shared.factor[lane / 4], out[0], out[1]);
}

}  // namespace

bool is_split(const AttendCall& call) {
  return uses_matrices(call) && call.q.rows * call.heads <= heads_most && call.keys_most <= tiles_most * key_block;
}

cudaError_t attend_split(cudaStream_t stream, const AttendCall& call) {
  const auto rows = static_cast<unsigned>(call.q.rows);
  const unsigned head_tiles = static_cast<unsigned>((call.heads + matrix_heads - 1) / matrix_heads);
  const dim3 score_grid(rows, static_cast<unsigned>((call.keys_most + score_keys - 1) / score_keys), head_tiles);
  const float scale = static_cast<float>(1.0 / sqrt(static_cast<double>(wide_dim)));
  cudaError_t status = launch_dependent(stream, {score_grid, threads, 1, 0}, score_keys_kernel, call, scale);
  if (status != cudaSuccess) return status;
  const std::size_t bytes = static_cast<std::size_t>(call.keys_most) * (slice_row + value_heads * 2);
  constexpr int bytes_most = tiles_most * key_block * (slice_row + value_heads * 2);
  status = cudaFuncSetAttribute(add_values_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes_most);
  if (status != cudaSuccess) return status;
  const dim3 value_grid(rows, static_cast<unsigned>((call.heads + value_heads - 1) / value_heads),
                        wide_dim / slice_channels);
  return launch_dependent(stream, {value_grid, threads, 1, bytes}, add_values_kernel, call);
}

}  // namespace tandem::gpu::cuda
