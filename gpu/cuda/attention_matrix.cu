// Attention of many rows on matrix units: keys = values, one KV head, so that a row's 32 heads share every key.
//
//   s_t = (q . k_t) d^-0.5, p_t = exp(s_t - M), o = sum_t bf16(p_t) k_t / (sum_t p_t + exp(sink - M))
//
// Shapes   q, out [T, heads * 512]; window records W8, entries N4 or W8, any number of them.
// Work     a block is one row and 32 heads. It decodes 64 keys at a time to bf16, once for scores and values, while the
//          records of the next 64 are on their way to registers. Scores: a warp has 16 heads, 16 keys and one of the
//          two chains, whose queries it keeps in registers; the warps of two chains give each other half of their sums.
//          Values: a warp has 32 channels of all 32 heads in registers.
// Order    attention_tile.cuh.
// Bytes    528 a window key, 288 an entry: 0.2 MB at 640 keys; 64 KB of queries, 64 KB of results.
// Shared   a tile of 64 KB, two where they fit, and 32 KB of queries: those that stay in registers leave their place to
//          the weights and to the sums that warps exchange.
// Limit    shared memory: 176 KB a tile for scores, 128 KB for values, 64 KB written.
#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/attention_tile.cuh"
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/exl3/product.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int block_heads = 2 * matrix_heads;
constexpr int groups = key_block / 16;  // of keys
constexpr int warps = 4 * groups;       // halves of the heads times chains times groups
constexpr int threads = warps * warp_size;
constexpr int tile_count = has_large_chunks ? 2 : 1;
constexpr int key_bytes = key_block * wide_dim * 2, query_bytes = block_heads * wide_dim * 2;
constexpr int chain_steps = score_steps / 2;
constexpr int held_steps = 10;  // of a chain: its last ones
constexpr int query_slab = block_heads * slab_row;
// In the queries' slabs that nobody reads any more: two of sums, one of weights.
constexpr int given_place = query_bytes - 3 * query_slab, weight_place = query_bytes - query_slab;
static_assert(warps * 32 == wide_dim, "a warp has 32 channels of values");
static_assert((chain_steps - held_steps) * 2 * 32 * block_heads <= given_place, "held queries leave their place");
static_assert(warps * warp_size * static_cast<int>(sizeof(float4)) == 2 * query_slab);

struct Shared {
  float maxima[groups][block_heads], sums[groups][block_heads], keep[block_heads];
  const std::byte* places[2][key_block];
  int selected;
};

// A thread's part in the softmax of one head.
struct Softmax {
  float most = -FLT_MAX;  // finite: -inf would make NaN of -inf - -inf
  float total = 0;
};

struct Place {
  int warp, lane, quad, in_quad;  // lane = 4 quad + in_quad
  int half, chain, group;         // of heads and of keys, while it scores
  int head;                       // while it softens

  __device__ Place()
      : warp(static_cast<int>(threadIdx.x) / warp_size),
        lane(static_cast<int>(threadIdx.x) % warp_size),
        quad(lane / 4),
        in_quad(lane % 4),
        half(warp % 2),
        chain(warp / 2 % 2),
        group(warp / 4),
        head(half * matrix_heads + chain * 8 + quad) {}
};

// ---- records ----

constexpr int own_records = key_block / warps;

// 16 neighbouring channels of a record, a lane's part: N4 has two words of codes.
struct RawPart {
  unsigned codes[4];
  std::uint8_t scale;
};

__device__ RawPart load_part(RecordFormat format, const std::byte* record, int lane) {
  const auto* scales = reinterpret_cast<const std::uint8_t*>(record) + code_bytes(format, wide_dim);
  if (format == RecordFormat::n4) {
    const uint2 codes = reinterpret_cast<const uint2*>(record)[lane];
    return {{codes.x, codes.y, 0, 0}, scales[lane]};
  }
  const uint4 codes = reinterpret_cast<const uint4*>(record)[lane];
  return {{codes.x, codes.y, codes.z, codes.w}, scales[lane / 2]};
}

__device__ uint4 decode_part(RecordFormat format, const RawPart& raw, bool upper) {
  if (format == RecordFormat::n4) return decode_chunk(format, {{raw.codes[upper ? 1 : 0], 0}, raw.scale});
  return decode_chunk(format, {{raw.codes[upper ? 2 : 0], raw.codes[upper ? 3 : 1]}, raw.scale});
}

// A warp's records of a tile: number warp, warp + 16, ..
struct RawTile {
  RawPart parts[own_records];
  int count = 0, window = 0;  // keys of the tile, of its window

  __device__ RecordFormat format_of(const KeyFormats& formats, int t) const {
    return t < window ? formats.window : formats.entry;
  }
  __device__ void load(const Place& own, const std::byte* const* places, const KeyFormats& formats) {
    if (count <= 0) return;
#pragma unroll
    for (int a = 0; a < own_records; ++a) {
      const int t = min(own.warp + a * warps, count - 1);
      parts[a] = load_part(format_of(formats, t), places[t], own.lane);
    }
  }
  // To slabs; rows behind the last key are zeros. Every other four lanes begin with their upper chunk, so that eight
  // lanes write to different banks.
  __device__ void decode(const Place& own, const KeyFormats& formats, unsigned char* tile) const {
    if (count <= 0) return;
    const int turn = own.quad % 2;
#pragma unroll
    for (int a = 0; a < own_records; ++a) {
      const int t = own.warp + a * warps;
      const RecordFormat format = format_of(formats, min(t, count - 1));
#pragma unroll
      for (int chunk = 0; chunk < 2; ++chunk) {
        const bool upper = chunk != turn;
        auto* to = reinterpret_cast<uint4*>(tile + slab_place(key_block, t, 2 * own.lane + (upper ? 1 : 0)));
        *to = t < count ? decode_part(format, parts[a], upper) : uint4{};
      }
    }
  }
};

// ---- scores ----

__device__ int query_place(const Place& own) {
  return slab_place(block_heads, own.half * matrix_heads + own.lane % 16, own.lane / 16);
}

using HeldQueries = unsigned[held_steps][4];

__device__ void load_query(const Place& own, const unsigned char* queries, int number, unsigned (&a)[4]) {
  load_matrices(a, queries + (query_place(own) ^ (number % 2 * 64 + own.chain * 32)) + number / 2 * query_slab);
}

// This thread's scores: of its head keys 2 p, 2 p + 1, 2 p + 8 and 2 p + 9 of its group.
using Scores = float[4];

// The chain's sums of heads g and g + 8: those of g stay with the even chain, the others with the odd one.
__device__ void add_chain(const Place& own, const unsigned char* queries, const HeldQueries& held,
                          const unsigned char* tile, Scores& kept, float4& given) {
  const int key = slab_place(key_block, own.group * 16 + own.lane % 8 + own.lane / 16 * 8, own.lane / 8 % 2);
  const unsigned char* keys = tile + (key ^ (own.chain * 32));
  const unsigned char* farther = tile + (key ^ (own.chain * 32 + 64));
  float sums[2][4] = {};
#pragma unroll
  for (int number = 0; number < chain_steps; ++number) {
    unsigned a[4], b[4];
    load_matrices(b, (number % 2 == 0 ? keys : farther) + number / 2 * key_block * slab_row);
    if (number < chain_steps - held_steps) {
      load_query(own, queries, number, a);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = held[number - (chain_steps - held_steps)][i];
    }
    multiply_add_bf16(sums[0], a, b[0], b[1]);
    multiply_add_bf16(sums[1], a, b[2], b[3]);
  }
  const bool odd = own.chain != 0;
  given = {odd ? sums[0][0] : sums[0][2], odd ? sums[0][1] : sums[0][3], odd ? sums[1][0] : sums[1][2],
           odd ? sums[1][1] : sums[1][3]};
#pragma unroll
  for (int c = 0; c < 4; ++c) kept[c] = odd ? sums[c / 2][2 + c % 2] : sums[c / 2][c % 2];
}

// Whether the key of score c exists.
__device__ bool is_there(const Place& own, int count, int c) {
  return own.group * 16 + c / 2 * 8 + own.in_quad * 2 + c % 2 < count;
}

__device__ void show_maxima(const Place& own, int count, const Scores& scores, Shared& shared) {
  float most = -FLT_MAX;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (is_there(own, count, c)) most = fmaxf(most, scores[c]);
  }
  most = most_of_quad(most);
  if (own.in_quad == 0) shared.maxima[own.group][own.head] = most;
}

// Scores become weights in shared memory; leaves the factors of the old sums in shared.keep.
__device__ void soften(const Place& own, int count, Scores& scores, Softmax& softmax, Shared& shared,
                       unsigned char* weights) {
  float most = softmax.most;
#pragma unroll
  for (int group = 0; group < groups; ++group) most = fmaxf(most, shared.maxima[group][own.head]);
  const float keep = weight_of(softmax.most, most);
  softmax.most = most;
  softmax.total *= keep;
  if (own.group == 0 && own.in_quad == 0) shared.keep[own.head] = keep;
#pragma unroll
  for (int c = 0; c < 4; ++c) scores[c] = is_there(own, count, c) ? weight_of(scores[c], most) : 0.0F;
  const float sum = add_quad((scores[0] + scores[1]) + (scores[2] + scores[3]));
  if (own.in_quad == 0) shared.sums[own.group][own.head] = sum;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    auto* to = reinterpret_cast<unsigned*>(weights + slab_place(block_heads, own.head, own.group * 2 + n));
    to[own.in_quad] = packed(round_to_bf16(scores[2 * n]), round_to_bf16(scores[2 * n + 1]));
  }
}

__device__ void add_totals(const Place& own, const Shared& shared, Softmax& softmax) {
  softmax.total +=
      (shared.sums[0][own.head] + shared.sums[1][own.head]) + (shared.sums[2][own.head] + shared.sums[3][own.head]);
}

// ---- values ----

// A warp's 32 channels of all heads: [half of the heads][8 channels][heads g, g + 8 and channels 2 p, 2 p + 1].
using Values = float[2][4][4];

__device__ void add_values(const Place& own, const unsigned char* weights, const unsigned char* tile,
                           const Shared& shared, Values& out) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float low = shared.keep[half * matrix_heads + own.quad];
    const float high = shared.keep[half * matrix_heads + own.quad + 8];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) out[half][n][c] *= c < 2 ? low : high;
    }
  }
  const int weight = slab_place(block_heads, own.lane % 16, own.lane / 16);
  const int value = slab_place(key_block, own.lane % 16, own.warp * 4 + own.lane / 16);
#pragma unroll
  for (int step = 0; step < tile_steps; ++step) {
    unsigned a[2][4];
    load_matrices(a[0], weights + (weight ^ (step * 32)));
    load_matrices(a[1], weights + (weight ^ (step * 32)) + matrix_heads * slab_row);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      unsigned b[4];
      load_transposed(b, tile + (value ^ (n * 32)) + step * 16 * slab_row);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        multiply_add_bf16(out[half][2 * n], a[half], b[0], b[1]);
        multiply_add_bf16(out[half][2 * n + 1], a[half], b[2], b[3]);
      }
    }
  }
}

__device__ void store_values(const Place& own, const AttendCall& call, int first_head, const Shared& shared,
                             const Values& out) {
  const RowAngle angle = angle_of_row(call.angles, blockIdx.x);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int head = half * matrix_heads + upper * 8 + own.quad;
      if (first_head + head >= call.heads) continue;
      const float factor = shared.keep[head];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        store_pair(call, angle, first_head + head, own.warp * 32 + n * 8 + own.in_quad * 2, factor,
                   out[half][n][2 * upper], out[half][n][2 * upper + 1]);
      }
    }
  }
}

// ---- places of records ----

// Finds the record of one key by and by, so that nobody waits for its entry's number and then for its page. A thread
// finds key `own` of each tile that it is asked for; 64 threads have one each.
class NextRecord {
 public:
  __device__ NextRecord(const KeySource& keys, const KeyFormats& formats, int total, int own)
      : keys_(keys), formats_(formats), total_(total), window_(static_cast<int>(keys.window_count)), own_(own) {}

  // For the tile that begins with key `first`, in this order, with work between them.
  __device__ void load_entry(int first) {
    if (is_entry(first)) entry_ = keys_.selected[first + own_ - window_];
  }
  __device__ void load_page(int first) {
    if (is_entry(first)) page_ = keys_.pages[entry_ / page_entries];
  }
  __device__ void store_place(int first, const std::byte** places) const {
    const int key = first + own_;
    if (own_ >= key_block || key >= total_) return;
    if (key >= window_) {
      const std::int64_t at = std::int64_t{page_} * page_entries + entry_ % page_entries;
      places[own_] = keys_.pool + at * bytes_of_record(formats_.entry, wide_dim);
    } else {
      const auto slot = static_cast<unsigned>(keys_.window_first + key) % static_cast<unsigned>(keys_.ring_slots);
      places[own_] = keys_.ring + slot * bytes_of_record(formats_.window, wide_dim);
    }
  }

 private:
  __device__ bool is_entry(int first) const {
    return own_ < key_block && first + own_ >= window_ && first + own_ < total_;
  }

  const KeySource& keys_;
  KeyFormats formats_;
  int total_, window_, own_;
  std::int32_t entry_ = 0, page_ = 0;
};

// Places of the first two tiles, by 64 threads each.
__device__ void find_first_places(const KeySource& keys, const KeyFormats& formats, int total, Shared& shared) {
  const int tile = static_cast<int>(threadIdx.x) / key_block;
  if (tile >= 2) return;
  NextRecord record(keys, formats, total, static_cast<int>(threadIdx.x) % key_block);
  record.load_entry(tile * key_block);
  record.load_page(tile * key_block);
  record.store_place(tile * key_block, shared.places[tile]);
}

__global__ void __launch_bounds__(threads, 1) attend_matrix_kernel(AttendCall call, float scale) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Shared shared;
  unsigned char *queries = memory + tile_count * key_bytes, *weights = queries + weight_place;
  auto* given = reinterpret_cast<float4*>(queries + given_place);
  const KeySource keys = call.rows[blockIdx.x];
  const KeyFormats formats{call.window_format, call.entry_format};
  const Place own;
  const int first_head = static_cast<int>(blockIdx.y) * block_heads;
  load_queries<block_heads>(call, first_head, queries);
  const int total = static_cast<int>(count_keys(keys, shared.selected)), window = static_cast<int>(keys.window_count);
  find_first_places(keys, formats, total, shared);
  NextRecord next(keys, formats, total, static_cast<int>(threadIdx.x));
  next.load_entry(2 * key_block);
  __syncthreads();
  RawTile raw;
  raw.count = min(total, key_block), raw.window = window;
  raw.load(own, shared.places[0], formats);
  HeldQueries held;
#pragma unroll
  for (int i = 0; i < held_steps; ++i) load_query(own, queries, chain_steps - held_steps + i, held[i]);
  raw.decode(own, formats, memory);
  Softmax softmax;
  Values out = {};
  for (int first = 0; first < total; first += key_block) {
    const int count = min(total - first, key_block), turn = first / key_block % 2, after = first + key_block;
    unsigned char *tile = memory + turn % tile_count * key_bytes, *other = memory + (1 - turn) % tile_count * key_bytes;
    __syncthreads();  // the tile and the next places are there, and nobody reads what is written below any more
    Scores scores;
    float4 half;
    add_chain(own, queries, held, tile, scores, half);
    given[threadIdx.x] = half;
    raw.count = min(total - after, key_block), raw.window = window - after;
    raw.load(own, shared.places[1 - turn], formats);
    next.load_page(after + key_block);
    __syncthreads();
    const float4 got = given[threadIdx.x ^ 2 * warp_size];
    scores[0] = (scores[0] + got.x) * scale, scores[1] = (scores[1] + got.y) * scale;
    scores[2] = (scores[2] + got.z) * scale, scores[3] = (scores[3] + got.w) * scale;
    show_maxima(own, count, scores, shared);
    __syncthreads();
    soften(own, count, scores, softmax, shared, weights);
    next.store_place(after + key_block, shared.places[turn]);
    next.load_entry(after + 2 * key_block);
    __syncthreads();
    add_totals(own, shared, softmax);
    add_values(own, weights, tile, shared, out);
    if (tile_count == 1) __syncthreads();
    raw.decode(own, formats, other);
  }
  __syncthreads();
  if (own.group == 0 && own.in_quad == 0 && first_head + own.head < call.heads) {
    shared.keep[own.head] = end_factor(softmax.total, call.sink[first_head + own.head], softmax.most);
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
  constexpr int bytes = tile_count * key_bytes + query_bytes;
  const cudaError_t status =
      cudaFuncSetAttribute(attend_matrix_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status != cudaSuccess) return status;
  const auto rows = static_cast<unsigned>(call.q.rows);
  const dim3 grid(rows, static_cast<unsigned>((call.heads + block_heads - 1) / block_heads));
  const float scale = static_cast<float>(1.0 / sqrt(static_cast<double>(wide_dim)));
  return launch_dependent(stream, {grid, threads, 1, bytes}, attend_matrix_kernel, call, scale);
}

}  // namespace tandem::gpu::cuda
