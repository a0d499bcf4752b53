// Attention of many rows on matrix units: keys = values, one KV head, so that a row's 32 heads share every key.
//
//   s_t = (q . k_t) d^-0.5, p_t = exp(s_t - M), o = sum_t bf16(p_t) k_t / (sum_t p_t + exp(sink - M))
//
// Shapes   q, out [T, heads * 512]; window records W8, entries N4 or W8, any number of them.
// Work     a block is one row and 32 heads. It decodes 64 keys at a time to bf16, once for scores and values. Scores: a
//          warp has 16 heads and 16 keys. Values: a warp has 64 channels of all 32 heads in registers.
// Order    attention_tile.cuh.
// Bytes    528 a window key, 288 an entry: 0.2 MB at 640 keys; 64 KB of queries, 64 KB of results.
// Shared   98 or 102 KB. Where two blocks of 102 do not fit, the queries' last 64 channels stay in registers, and the
//          weights take their place.
// Limit    instructions that wait for each other: 627 us for 2048 rows of 640 keys on an H200, where the matrix
//          instructions alone would take 137.
#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/attention_records.cuh"
#include "gpu/cuda/attention_tile.cuh"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/exl3/product.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int block_heads = 2 * matrix_heads;
constexpr int groups = key_block / 16;  // of keys, a warp each
constexpr int warps = 2 * groups;
constexpr int threads = warps * warp_size;
constexpr int key_bytes = key_block * wide_dim * 2, query_bytes = block_heads * wide_dim * 2;
constexpr int weight_bytes = block_heads * slab_row;
// Steps of a dot product whose queries stay in registers: those of the last slab, which the weights take.
constexpr int held_steps = has_large_chunks ? 0 : 4;
constexpr int weight_place = key_bytes + query_bytes - (held_steps > 0 ? weight_bytes : 0);
constexpr int memory_bytes = weight_place + weight_bytes;
static_assert(warps * 64 == wide_dim, "a warp has one slab of values");

struct Shared {
  float maxima[groups][block_heads], sums[groups][block_heads], keep[block_heads];
  const std::byte* places[2][key_block];
  int selected;
};

// What a thread holds of a tile's scores: heads g and g + 8, keys 8 n + 2 p and the next one of its group.
using Scores = float[2][4];

// A thread's part in the softmax of its warp's heads g and g + 8.
struct Softmax {
  float most[2] = {-FLT_MAX, -FLT_MAX};  // finite: -inf would make NaN of -inf - -inf
  float total[2] = {0, 0};
};

struct Place {
  int lane, quad, in_quad;  // lane = 4 quad + in_quad
  int half, group;          // of heads and of keys, while it scores
  int slab;                 // while it adds values
};

__device__ Place own_place() {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  return {lane, lane / 4, lane % 4, warp % 2, warp / 2, warp};
}

__device__ int query_place(const Place& own) {
  return slab_place(block_heads, own.half * matrix_heads + own.lane % 16, own.lane / 16);
}

struct HeldQueries {
  unsigned steps[held_steps > 0 ? held_steps : 1][4];

  __device__ void load(const Place& own, const unsigned char* weights) {
    const int at = query_place(own);
#pragma unroll
    for (int step = 0; step < held_steps; ++step) load_matrices(steps[step], weights + (at ^ (step * 32)));
  }
};

__device__ void score_keys(const Place& own, const unsigned char* queries, const HeldQueries& held,
                           const unsigned char* keys, float scale, Scores& scores) {
  const int query = query_place(own);
  const int key = slab_place(key_block, own.group * 16 + own.lane % 8 + own.lane / 16 * 8, own.lane / 8 % 2);
  float sums[2][2][4] = {};
#pragma unroll
  for (int step = 0; step < score_steps; ++step) {
    unsigned a[4], b[4];
    load_matrices(b, keys + (key ^ (step % 4 * 32)) + step / 4 * key_block * slab_row);
    if (step < score_steps - held_steps) {
      load_matrices(a, queries + (query ^ (step % 4 * 32)) + step / 4 * block_heads * slab_row);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = held.steps[step % 4][i];
    }
    multiply_add_bf16(sums[step % 2][0], a, b[0], b[1]);
    multiply_add_bf16(sums[step % 2][1], a, b[2], b[3]);
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) scores[n][c] = (sums[0][n][c] + sums[1][n][c]) * scale;
  }
}

// Takes the least number for the scores of keys that do not exist, whose weight is then 0: every tile has a key.
__device__ void mask_scores(const Place& own, int count, Scores& scores) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const bool is_there = own.group * 16 + n * 8 + own.in_quad * 2 + c % 2 < count;
      scores[n][c] = is_there ? scores[n][c] : -FLT_MAX;
    }
  }
}

__device__ void show_maxima(const Place& own, const Scores& scores, Shared& shared) {
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int c = 2 * upper;
    const float all = most_of_quad(fmaxf(fmaxf(scores[0][c], scores[0][c + 1]), fmaxf(scores[1][c], scores[1][c + 1])));
    if (own.in_quad == 0) shared.maxima[own.group][own.half * matrix_heads + upper * 8 + own.quad] = all;
  }
}

// Scores become weights in shared memory; leaves the factors of the old sums in shared.keep.
__device__ void soften(const Place& own, Scores& scores, Softmax& softmax, Shared& shared, unsigned char* weights) {
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int head = own.half * matrix_heads + upper * 8 + own.quad;
    float most = softmax.most[upper];
#pragma unroll
    for (int group = 0; group < groups; ++group) most = fmaxf(most, shared.maxima[group][head]);
    const float keep = weight_of(softmax.most[upper], most);
    softmax.most[upper] = most;
    softmax.total[upper] *= keep;
    if (own.group == 0 && own.in_quad == 0) shared.keep[head] = keep;
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) scores[n][c] = weight_of(scores[n][c], softmax.most[c / 2]);
  }
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int head = own.half * matrix_heads + upper * 8 + own.quad, c = 2 * upper;
    const float sum = add_quad((scores[0][c] + scores[0][c + 1]) + (scores[1][c] + scores[1][c + 1]));
    if (own.in_quad == 0) shared.sums[own.group][head] = sum;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      auto* to = reinterpret_cast<unsigned*>(weights + slab_place(block_heads, head, own.group * 2 + n));
      to[own.in_quad] = rounded_pair(scores[n][c], scores[n][c + 1]);
    }
  }
}

__device__ void add_totals(const Place& own, const Shared& shared, Softmax& softmax) {
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int head = own.half * matrix_heads + upper * 8 + own.quad;
    const float sum = (shared.sums[0][head] + shared.sums[1][head]) + (shared.sums[2][head] + shared.sums[3][head]);
    softmax.total[upper] += sum;
  }
}

// A warp's 64 channels of all heads: [half of the heads][8 channels][heads g, g + 8 and channels 2 p, 2 p + 1].
using Values = float[2][8][4];

__device__ void add_values(const Place& own, const unsigned char* weights, const unsigned char* keys,
                           const Shared& shared, Values& out) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float low = shared.keep[half * matrix_heads + own.quad];
    const float high = shared.keep[half * matrix_heads + own.quad + 8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) out[half][n][c] *= c < 2 ? low : high;
    }
  }
  const int weight = slab_place(block_heads, own.lane % 16, own.lane / 16);
  const int value = slab_place(key_block, own.lane % 16, own.slab * 8 + own.lane / 16);
#pragma unroll
  for (int step = 0; step < tile_steps; ++step) {
    unsigned a[2][4];
    load_matrices(a[0], weights + (weight ^ (step * 32)));
    load_matrices(a[1], weights + (weight ^ (step * 32)) + matrix_heads * slab_row);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      unsigned b[4];
      load_transposed(b, keys + (value ^ (n * 32)) + step * 16 * slab_row);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        multiply_add_bf16(out[half][2 * n], a[half], b[0], b[1]);
        multiply_add_bf16(out[half][2 * n + 1], a[half], b[2], b[3]);
      }
    }
  }
}

// Results are rounded; where a slab turns, by store_pair.
__device__ void store_values(const Place& own, const AttendCall& call, int first_head, const Shared& shared,
                             const Values& out) {
  const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
  const bool turns = is_rotated(angle, own.slab * 64 + 63, wide_dim);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int head = half * matrix_heads + upper * 8 + own.quad;
      if (first_head + head >= call.heads) continue;
      const float factor = shared.keep[head];
      float* row = row_of(call.out, blockIdx.x) + std::int64_t{first_head + head} * wide_dim + own.slab * 64;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (!turns) {
          const unsigned pair = rounded_pair(factor * out[half][n][2 * upper], factor * out[half][n][2 * upper + 1]);
          *reinterpret_cast<float2*>(row + n * 8 + own.in_quad * 2) = unpacked(pair);
          continue;
        }
        store_pair(call, angle, first_head + head, own.slab * 64 + n * 8 + own.in_quad * 2, factor,
                   out[half][n][2 * upper], out[half][n][2 * upper + 1]);
      }
    }
  }
}

// Finds the record of one key of the next tile by and by, so that nobody waits for its entry's number and then for its
// page. The first 64 threads have a key each.
class NextRecord {
 public:
  __device__ NextRecord(const KeySource& keys, const KeyFormats& formats, std::int64_t total)
      : keys_(keys), formats_(formats), total_(static_cast<int>(total)), window_(static_cast<int>(keys.window_count)) {}

  // For the tile that begins with key `first`, in this order, with work between them.
  __device__ void load_entry(int first) {
    if (is_entry(first)) entry_ = keys_.selected[first + own() - window_];
  }
  __device__ void load_page(int first) {
    if (is_entry(first)) page_ = keys_.pages[entry_ / page_entries];
  }
  __device__ void store_place(int first, const std::byte** places) const {
    const int key = first + own();
    if (own() >= key_block || key >= total_) return;
    if (key >= window_) {
      const std::int64_t at = std::int64_t{page_} * page_entries + entry_ % page_entries;
      places[own()] = keys_.pool + at * bytes_of_record(formats_.entry, wide_dim);
    } else {
      const auto slot = static_cast<unsigned>(keys_.window_first + key) % static_cast<unsigned>(keys_.ring_slots);
      places[own()] = keys_.ring + slot * bytes_of_record(formats_.window, wide_dim);
    }
  }

 private:
  __device__ static int own() { return static_cast<int>(threadIdx.x); }
  __device__ bool is_entry(int first) const {
    return own() < key_block && first + own() >= window_ && first + own() < total_;
  }

  const KeySource& keys_;
  KeyFormats formats_;
  int total_, window_;
  std::int32_t entry_ = 0, page_ = 0;
};

__global__ void __launch_bounds__(threads, 2) attend_matrix_kernel(AttendCall call, float scale) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Shared shared;
  unsigned char *tile = memory, *queries = memory + key_bytes, *weights = memory + weight_place;
  const KeySource keys = call.rows[blockIdx.x];
  const KeyFormats formats{call.window_format, call.entry_format};
  const Place own = own_place();
  const int first_head = static_cast<int>(blockIdx.y) * block_heads;
  load_queries<block_heads>(call, first_head, queries);  // while the row is on its way
  const int total = static_cast<int>(count_keys(keys, shared.selected)), window = static_cast<int>(keys.window_count);
  find_records(keys, formats, wide_dim, 0, total, shared.places[0]);
  NextRecord next(keys, formats, total);
  next.load_entry(key_block);
  __syncthreads();
  HeldQueries held;
  held.load(own, weights);
  Softmax softmax;
  Values out = {};
  for (int first = 0; first < total; first += key_block) {
    const int count = min(total - first, key_block), turn = first / key_block % 2;
    __syncthreads();  // nobody reads the tile or the weights any more, and the places are known
    decode_tile<warps>(shared.places[turn], formats, window - first, count, tile);
    next.load_page(first + key_block);
    __syncthreads();
    Scores scores;
    score_keys(own, queries, held, tile, scale, scores);
    if (count < key_block) mask_scores(own, count, scores);
    show_maxima(own, scores, shared);
    next.store_place(first + key_block, shared.places[1 - turn]);
    next.load_entry(first + 2 * key_block);
    __syncthreads();
    soften(own, scores, softmax, shared, weights);
    __syncthreads();
    add_totals(own, shared, softmax);
    add_values(own, weights, tile, shared, out);
  }
  __syncthreads();
  if (own.group == 0 && own.in_quad == 0) {
    for (int upper = 0; upper < 2; ++upper) {
      const int head = own.half * matrix_heads + upper * 8 + own.quad;
      if (first_head + head >= call.heads) continue;
      shared.keep[head] = end_factor(softmax.total[upper], call.sink[first_head + head], softmax.most[upper]);
    }
  }
  __syncthreads();
  store_values(own, call, first_head, shared, out);
}

bool is_matrix_format(RecordFormat format) {
  return format == RecordFormat::w8 || format == RecordFormat::n4;
}

}  // namespace

bool uses_matrices(const AttendCall& call) {
  return call.round && call.head_dim == wide_dim && is_matrix_format(call.window_format) &&
         is_matrix_format(call.entry_format);
}

cudaError_t attend_matrix(cudaStream_t stream, const AttendCall& call) {
  const cudaError_t status =
      cudaFuncSetAttribute(attend_matrix_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, memory_bytes);
  if (status != cudaSuccess) return status;
  const auto rows = static_cast<unsigned>(call.q.rows);
  const dim3 grid(rows, static_cast<unsigned>((call.heads + block_heads - 1) / block_heads));
  const float scale = static_cast<float>(1.0 / sqrt(static_cast<double>(wide_dim)));
  return launch_dependent(stream, {grid, threads, 1, memory_bytes}, attend_matrix_kernel, call, scale);
}

}  // namespace tandem::gpu::cuda
