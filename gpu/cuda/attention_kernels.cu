// Attention in FP32 over a row's window and its selected entries, keys = values, one KV head: for the shapes, records
// and numeric modes that matrix units do not take (attention_matrix.cu).
//
//   s_t = (q . k_t) d^-0.5, p_t = exp(s_t - M), o = sum_t bf16(p_t) k_t / (sum_t p_t + exp(sink - M))
//
// Shapes   q, out [T, heads * d], d <= 512; up to 128 window keys and 512 entries a row, read from their records.
// Work     a block is one row and 8 warps. It decodes 64 keys at a time to shared memory; then a head's warps (one of
//          8 where there are many rows, all 8 where there are few) score the keys, soften, and add the values.
// Order    64-key blocks from the row's own first key, window first; dots in 16 lanes; values ascending over keys. So a
//          row's bits depend on its own keys alone, and equal the CPU backend's, however the work is cut.
// Bytes    528 a window key, 288 an entry, for every block of a row: 0.2 MB at 640 keys.
// Limit    FP32 multiply-adds, and the chain over blocks of keys.
// Plain    gpu/cpu/attention_ops.cpp; the test is bit equality.
#include <cfloat>

#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/key_tile.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int warps = 8;
constexpr int threads = warps * warp_size;
constexpr int pairs_max = attention_dim_max / (2 * lanes);      // words of a lane in a dot product
constexpr int words_max = attention_dim_max / (2 * warp_size);  // value words of a thread if a head has one warp
constexpr std::int64_t few_heads = 400;                         // rows * heads that cannot fill a device one warp each

// One head's state in one of its warps.
template <int parts>
struct Head {
  float q[2 * pairs_max];            // lane l of each half-warp: channels l, l + 16, ..
  float out[2 * words_max / parts];  // see add_values
  float most = -FLT_MAX;             // finite: -inf would make NaN of -inf - -inf
  float total = 0;
};

// What the warps of a block share besides the tile.
struct Shared {
  float scores[warps][key_block];
  float keep[warps];  // by head: factor of the old sums; at last that of all
  const std::byte* places[2][key_block];
  int selected;
};

// scores[t] = (q . k_t) d^-0.5 for keys [begin, end); each half-warp takes every other key.
template <int parts, class Word>
__device__ void score_keys(const Head<parts>& head, const Word* tile, const TileShape& shape, int begin, int end,
                           float scale, float* scores) {
  const int lane = threadIdx.x % lanes, half = threadIdx.x / lanes % 2;
  for (int first = begin; first < end; first += 2) {
    const int t = first + half < end ? first + half : end - 1;
    const Word* key = tile + t * shape.stride + lane;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < pairs_max; ++i) {
      if (i * 2 * lanes >= shape.dim) continue;
      const float2 pair = unpacked(key[i * lanes]);
      sum = fmaf(head.q[2 * i], pair.x, sum);
      sum = fmaf(head.q[2 * i + 1], pair.y, sum);
    }
    sum = add_lanes(sum);
    if (lane == 0 && first + half < end) scores[t] = sum * scale;
  }
}

// Turns scores into exps relative to the new maximum. Returns the factor of the old sums.
template <int parts>
__device__ float soften(Head<parts>& head, float* p, int count, bool round) {
  const int i = threadIdx.x % warp_size;
  float most = head.most;
  for (int t = i; t < count; t += warp_size) most = fmaxf(most, p[t]);
  for (int step = warp_size / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(full_warp, most, step));
  const float keep = exponential(head.most - most);
  for (int t = i; t < count; t += warp_size) p[t] = exponential(p[t] - most);
  __syncwarp();
  float sum = 0;
  for (int t = i % lanes; t < count; t += lanes) sum += p[t];
  sum = add_lanes(sum);
  __syncwarp();
  for (int t = i; t < count; t += warp_size) p[t] = rounded(p[t], round);
  head.total = head.total * keep + sum;
  head.most = most;
  return keep;
}

// Value words of part `part`: words part * words_max / parts * 32 + i, + 32, .. of thread i.
template <int parts>
__device__ int first_word(int part) {
  return part * (words_max / parts) * warp_size + static_cast<int>(threadIdx.x) % warp_size;
}

template <int parts, class Word>
__device__ void add_values(Head<parts>& head, const Word* tile, const TileShape& shape, int count, const float* p,
                           float keep, int part) {
  constexpr int words = words_max / parts;
#pragma unroll
  for (int j = 0; j < 2 * words; ++j) head.out[j] *= keep;
  const int first = first_word<parts>(part);
#pragma unroll 4
  for (int t = 0; t < count; ++t) {
    const float weight = p[t];
#pragma unroll
    for (int j = 0; j < words; ++j) {
      if (first + j * warp_size >= shape.words) continue;
      const float2 pair = unpacked(tile[t * shape.stride + first + j * warp_size]);
      head.out[2 * j] = fmaf(weight, pair.x, head.out[2 * j]);
      head.out[2 * j + 1] = fmaf(weight, pair.y, head.out[2 * j + 1]);
    }
  }
}

template <int parts>
__device__ void load_head(Head<parts>& head, const float* q, int dim) {
#pragma unroll
  for (int i = 0; i < 2 * pairs_max; ++i) {
    const int channel = i * lanes + static_cast<int>(threadIdx.x) % lanes;
    head.q[i] = channel < dim ? q[channel] : 0.0F;
  }
#pragma unroll
  for (int j = 0; j < 2 * words_max / parts; ++j) head.out[j] = 0.0F;
}

template <int parts>
__device__ void store_head(const Head<parts>& head, const TileShape& shape, float factor, bool round, int part,
                           float* out) {
#pragma unroll
  for (int j = 0; j < words_max / parts; ++j) {
    const int word = first_word<parts>(part) + j * warp_size;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = channel_of(word, half);
      if (word < shape.words && column < shape.dim) out[column] = rounded(factor * head.out[2 * j + half], round);
    }
  }
}

template <class Word, int parts>
__global__ void __launch_bounds__(threads) attend_kernel(AttendCall call, float scale, TileShape shape) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Shared shared;
  auto* tile = reinterpret_cast<Word*>(memory);
  const KeySource keys = call.rows[blockIdx.x];
  const std::int64_t total = count_keys(keys, shared.selected);
  const int warp = static_cast<int>(threadIdx.x) / warp_size, group = warp / parts, part = warp % parts;
  const int number = static_cast<int>(blockIdx.y) * (warps / parts) + group;
  const bool is_used = number < call.heads;
  const std::int64_t offset = static_cast<std::int64_t>(is_used ? number : 0) * call.head_dim;
  float* scores = shared.scores[group];
  Head<parts> head;
  load_head<parts>(head, row_of(call.q, blockIdx.x) + offset, call.head_dim);
  const KeyFormats formats{call.window_format, call.entry_format};
  find_records(keys, formats, call.head_dim, 0, total, shared.places[0]);
  for (std::int64_t first = 0; first < total; first += key_block) {
    const int count = static_cast<int>(total - first < key_block ? total - first : key_block);
    const int turn = static_cast<int>(first / key_block % 2);
    __syncthreads();  // the tile is free, the places are known
    const int in_window = static_cast<int>(max(std::int64_t{0}, min(keys.window_count - first, std::int64_t{count})));
    decode_keys(shared.places[turn], formats, in_window, count, shape, tile);
    find_records(keys, formats, call.head_dim, first + key_block, total, shared.places[1 - turn]);
    __syncthreads();
    const int begin = part * key_block / parts, end = min((part + 1) * key_block / parts, count);
    score_keys<parts>(head, tile, shape, begin, end, scale, scores);
    if (parts > 1) __syncthreads();
    __syncwarp();
    if (part == 0) {
      const float keep = soften<parts>(head, scores, count, call.round);
      if (threadIdx.x % warp_size == 0) shared.keep[group] = keep;
    }
    if (parts > 1) __syncthreads();
    __syncwarp();
    add_values<parts>(head, tile, shape, count, scores, shared.keep[group], part);
  }
  __syncthreads();
  // The sink adds itself to the denominator.
  if (part == 0 && is_used && threadIdx.x % warp_size == 0) {
    shared.keep[group] = 1.0F / (head.total + exponential(call.sink[number] - head.most));
  }
  __syncthreads();
  if (!is_used) return;
  store_head<parts>(head, shape, shared.keep[group], call.round, part, row_of(call.out, blockIdx.x) + offset);
}

template <class Word, int parts>
cudaError_t launch(cudaStream_t stream, const AttendCall& call) {
  const TileShape shape = tile_shape(call.head_dim);
  const std::size_t bytes = static_cast<std::size_t>(key_block) * static_cast<std::size_t>(shape.stride) * sizeof(Word);
  const cudaError_t status = cudaFuncSetAttribute(attend_kernel<Word, parts>,
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  constexpr int heads = warps / parts;
  const dim3 grid(static_cast<unsigned>(call.q.rows), static_cast<unsigned>((call.heads + heads - 1) / heads));
  const float scale = static_cast<float>(1.0 / sqrt(static_cast<double>(call.head_dim)));
  return launch_dependent(stream, {grid, threads, 1, bytes}, attend_kernel<Word, parts>, call, scale, shape);
}

}  // namespace

cudaError_t attend(cudaStream_t stream, const AttendCall& call) {
  if (call.head_dim > attention_dim_max) return cudaErrorNotSupported;
  const bool is_plain = call.window_format == RecordFormat::f32 || call.entry_format == RecordFormat::f32;
  if (is_plain) return launch<float2, 1>(stream, call);
  const bool is_few = call.q.rows * call.heads <= few_heads;
  return is_few ? launch<unsigned, warps>(stream, call) : launch<unsigned, 1>(stream, call);
}

}  // namespace tandem::gpu::cuda
