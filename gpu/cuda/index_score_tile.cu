// The scores of index_score.cu for many rows of X4 records of 128 dimensions: each key is decoded once for 16 rows.
//
// Shapes   a block is 128 keys x 16 rows; a thread keeps 8 keys x 8 heads of one row and walks over the heads.
// Order    as there: a dot product is one chain over the dimensions, the sum over heads ascends. The same bits.
// Bytes    68 a key for every 16 rows, and 16 KB of queries a row for every 128 keys, from the second-level cache.
// Limit    FP32 multiply-adds, by count and not measured: a warp loads 8 values from shared memory in 6 clocks of 128
//          bytes for 64 multiply-adds, so shared memory needs 3/8 of the time that they take (where a thread has one
//          key both need the same); 96 KB and 8 warps a block, two blocks a multiprocessor on Hopper.
// Rows     of one launch may belong to several sequences: neighbours with the same pages are taken together.
#include <math_constants.h>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_score.cuh"
#include "gpu/cuda/records.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int tile_dim = 128, tile_keys = 128, tile_rows = 16, tile_heads = 8, tile_threads = 256;
constexpr int piece_dims = 64;  // dimensions of the queries that are in shared memory at a time
constexpr int own_keys = 8;     // of a thread: 4 * x .. 4 * x + 3, and those + 64
constexpr int threads_of_row = tile_threads / tile_rows;

struct TileMemory {
  float keys[tile_dim][tile_keys];
  float queries[piece_dims][tile_rows * tile_heads];
};
static_assert(sizeof(TileMemory) <= 101376, "what a block may have on GB10");

// Rows base .. base + count - 1 of the work; they share a pool and pages.
struct RowRun {
  std::int64_t base;
  int count;
  std::int64_t first;    // entry of key 0
  std::int64_t visible;  // of the row that sees most
};

__device__ int own_row() {
  return static_cast<int>(threadIdx.x) / threads_of_row;
}
__device__ int own_key(int k) {
  return 4 * (static_cast<int>(threadIdx.x) % threads_of_row) + k % 4 + k / 4 * (tile_keys / 2);
}

// Two threads decode a key.
__device__ void load_tile_keys(const IndexWork& work, const RowRun& run, TileMemory& memory) {
  constexpr int words = tile_dim / 8;
  const int key = threadIdx.x % tile_keys, part = threadIdx.x / tile_keys;
  const std::int64_t entry = run.first + key;
  if (entry >= run.visible) return;
  const IndexSource& row = work.rows[run.base];
  const std::int64_t place = std::int64_t{row.pages[entry / page_entries]} * page_entries + entry % page_entries;
  const auto* record =
      reinterpret_cast<const std::uint32_t*>(row.pool + place * bytes_of_record(RecordFormat::x4, tile_dim));
  const std::uint32_t scales = record[words];
#pragma unroll
  for (int w = 0; w < words / 2; ++w) {
    const int word = part * (words / 2) + w;
    const std::uint32_t codes = record[word];
    const float scale = e8m0_to_float(static_cast<std::uint8_t>(scales >> (word / 4 * 8)));
#pragma unroll
    for (int i = 0; i < 8; ++i) memory.keys[8 * word + i][key] = decode_e2m1(codes >> (4 * i)) * scale;
  }
}

// Dimensions `dim` .. dim + piece_dims - 1 of heads `head` .. head + tile_heads - 1 of all rows; zeros behind the last.
__device__ void load_queries(const IndexWork& work, const RowRun& run, int head, int dim, TileMemory& memory) {
  constexpr int columns = tile_rows * tile_heads, dims = piece_dims * columns / tile_threads;
  const int column = threadIdx.x % columns, first = threadIdx.x / columns * dims, row = column / tile_heads;
  const bool is_there = row < run.count;
  const float* from = row_of(work.iq, work.rows[run.base + (is_there ? row : 0)].row) +
                      (head + column % tile_heads) * tile_dim + dim + first;
#pragma unroll
  for (int i = 0; i < dims; i += 4) {
    const float4 q = is_there ? *reinterpret_cast<const float4*>(from + i) : make_float4(0, 0, 0, 0);
    memory.queries[first + i][column] = q.x;
    memory.queries[first + i + 1][column] = q.y;
    memory.queries[first + i + 2][column] = q.z;
    memory.queries[first + i + 3][column] = q.w;
  }
}

__device__ void load_eight(const float* low, const float* high, float (&v)[8]) {
  const float4 a = *reinterpret_cast<const float4*>(low), b = *reinterpret_cast<const float4*>(high);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
  v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

// Adds one piece's dimensions to the dot products of this thread.
__device__ void add_piece(const TileMemory& memory, int dim, float (&dots)[tile_heads][own_keys]) {
  const int key = own_key(0), column = own_row() * tile_heads;
#pragma unroll 4
  for (int i = 0; i < piece_dims; ++i) {
    float keys[own_keys], queries[tile_heads];
    load_eight(&memory.keys[dim + i][key], &memory.keys[dim + i][key + tile_keys / 2], keys);
    load_eight(&memory.queries[i][column], &memory.queries[i][column + 4], queries);
#pragma unroll
    for (int h = 0; h < tile_heads; ++h) {
#pragma unroll
      for (int k = 0; k < own_keys; ++k) dots[h][k] = fmaf(queries[h], keys[k], dots[h][k]);
    }
  }
}

// The scores of this thread's keys for its row.
__device__ void score_tile(const IndexWork& work, const RowRun& run, TileMemory& memory, float (&scores)[own_keys]) {
  const int row = own_row() < run.count ? own_row() : 0;
  const float* weights = row_of(work.weights, work.rows[run.base + row].row);
  load_tile_keys(work, run, memory);
  for (int head = 0; head < work.heads; head += tile_heads) {
    float dots[tile_heads][own_keys] = {};
    for (int dim = 0; dim < tile_dim; dim += piece_dims) {
      __syncthreads();  // nobody reads the piece before any more
      load_queries(work, run, head, dim, memory);
      __syncthreads();
      add_piece(memory, dim, dots);
    }
#pragma unroll
    for (int h = 0; h < tile_heads; ++h) {
      const float weight = weights[head + h];
#pragma unroll
      for (int k = 0; k < own_keys; ++k) scores[k] = fmaf(weight, dots[h][k] > 0.0F ? dots[h][k] : 0.0F, scores[k]);
    }
  }
}

__device__ void score_run(const IndexWork& work, const RowRun& run, TileMemory& memory) {
  const bool is_mine = own_row() < run.count;
  const IndexSource row = work.rows[run.base + (is_mine ? own_row() : 0)];
  unsigned wanted = 0;
#pragma unroll
  for (int k = 0; k < own_keys; ++k) {
    const std::int64_t entry = run.first + own_key(k);
    const bool is_wanted = is_mine && entry < row.visible && is_candidate(row, entry, work.block_size);
    wanted |= is_wanted ? 1U << k : 0U;
  }
  float scores[own_keys] = {};
  if (__syncthreads_or(wanted != 0 && !row.takes_all)) score_tile(work, run, memory, scores);
  if (!is_mine) return;
#pragma unroll
  for (int k = 0; k < own_keys; ++k) {
    const std::int64_t entry = run.first + own_key(k);
    if (entry >= row.visible) continue;
    const float score = row.takes_all ? 0.0F : scores[k];
    row.scores[entry] = (wanted >> k & 1U) != 0 ? score : -CUDART_INF_F;
  }
}

__device__ bool has_same_entries(const IndexSource& a, const IndexSource& b) {
  return a.pool == b.pool && a.pages == b.pages;
}

__global__ void __launch_bounds__(tile_threads, 2) score_tile_kernel(IndexWork work) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char tile_bytes[];
  auto& memory = *reinterpret_cast<TileMemory*>(tile_bytes);
  const std::int64_t base = blockIdx.y * std::int64_t{tile_rows}, left = work.row_count - base;
  const int rows = static_cast<int>(left < tile_rows ? left : tile_rows);
  for (int begin = 0; begin < rows;) {
    RowRun run{base + begin, 0, blockIdx.x * std::int64_t{tile_keys}, 0};
    for (; begin < rows && has_same_entries(work.rows[run.base], work.rows[base + begin]); ++begin, ++run.count) {
      const std::int64_t visible = work.rows[base + begin].visible;
      run.visible = run.visible < visible ? visible : run.visible;
    }
    if (run.first < run.visible) score_run(work, run, memory);
    __syncthreads();  // the next run has keys of its own
  }
}

}  // namespace

bool are_tiles(const IndexWork& work) {
  return work.row_count >= tile_rows && work.format == RecordFormat::x4 && work.head_dim == tile_dim &&
         work.heads % tile_heads == 0 && reinterpret_cast<std::uintptr_t>(work.iq.data) % 16 == 0 &&
         work.iq.stride % 4 == 0;
}

cudaError_t score_tiles(cudaStream_t stream, const IndexWork& work) {
  constexpr int shared_bytes = sizeof(TileMemory);
  const cudaError_t status =
      cudaFuncSetAttribute(score_tile_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>((work.visible_most + tile_keys - 1) / tile_keys),
                  static_cast<unsigned>((work.row_count + tile_rows - 1) / tile_rows));
  return launch_dependent(stream, {grid, tile_threads, 1, sizeof(TileMemory)}, score_tile_kernel, work);
}

}  // namespace tandem::gpu::cuda
