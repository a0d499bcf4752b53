// The scores of index_score.cu for many rows of one sequence: each key is decoded once for eight rows.
//
// Shapes   a block is eight rows, one a warp, and 2048 keys, a page at a time: each warp decodes eight keys of the next
//          page while all score this one. X4 records of 128 dimensions, up to 32 heads.
// Order    gpu/index_order.hpp: blocks of 32 dimensions exact, formed by matrix instructions (index_heads.cuh); a key
//          and a row always have the same bits.
// Bytes    68 a key for every eight rows, 16 KB of queries a row for every 2048 keys, from the second-level cache; 4
//          out a key and row.
// Limit    matrix instructions: 16 of them score eight keys, beside some 90 others. Measured on an H200: 490 us for 126
//          rows and 133 k keys, their pipe 44 % busy; the rest is waiting for results, with four warps a scheduler.
// Shared   32 KB a block.
// Rows     of one launch may belong to several sequences: neighbours with the same pages are taken together.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_heads.cuh"
#include "gpu/cuda/index_score.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace indexing;

constexpr int tile_rows = 8;  // warps
constexpr int tile_threads = tile_rows * warp_size;
constexpr int page_tiles = page_entries / tile_keys;
constexpr int tile_span = 32 * page_entries;  // keys of a block
static_assert(page_tiles == tile_rows, "every warp decodes one tile of a page");

// A page of decoded keys, a word of each block and lane after the other.
struct PageKeys {
  uint4 words[page_tiles][blocks][warp_size];
};

// Rows base .. base + count - 1 of the work; they share a pool and pages.
struct RowRun {
  int base;
  int count;
  int first;    // entry of key 0
  int visible;  // of the row that sees most
};

__device__ int own_lane() {
  return static_cast<int>(threadIdx.x) % warp_size;
}
__device__ int own_warp() {
  return static_cast<int>(threadIdx.x) / warp_size;
}

__device__ void store_keys(const KeyTile& tile, PageKeys& page) {
#pragma unroll
  for (int b = 0; b < blocks; ++b) page.words[own_warp()][b][own_lane()] = tile.words[b];
}

// Scores 32 keys of the page for this warp's row.
__device__ float score_group(const QueryHeads& queries, const PageKeys& page, int group) {
  float lanes_of_key[group_tiles][2];
#pragma unroll
  for (int t = 0; t < group_tiles; ++t) {
    KeyTile tile;
#pragma unroll
    for (int b = 0; b < blocks; ++b) tile.words[b] = page.words[group * group_tiles + t][b][own_lane()];
    add_heads(queries, tile, lanes_of_key[t]);
  }
  return add_lanes(lanes_of_key);
}

// The pages of the run, two of which are in shared memory in turn.
__device__ void score_pages(const IndexWork& work, const RowRun& run, PageKeys (&pages)[2]) {
  const IndexSource& row = work.rows[run.base + (own_warp() < run.count ? own_warp() : 0)];
  const int visible = own_warp() < run.count ? row.visible : 0;
  const int last = run.visible < run.first + tile_span ? run.visible : run.first + tile_span;
  const int own_tile = own_warp() * tile_keys;
  QueryHeads queries;
  load_queries(work, row.row, queries);
  store_keys(decode_keys(load_codes(row, run.first + own_tile, last)), pages[0]);
  int turn = 0;
  for (int first = run.first; first < last; first += page_entries, turn ^= 1) {
    const KeyCodes next = load_codes(row, first + page_entries + own_tile, last);
    __syncthreads();  // this page is there, and nobody reads the other one any more
    for (int entry = first; entry < first + page_entries && entry < visible; entry += group_keys) {
      store_score(work, row, entry + own_key(), score_group(queries, pages[turn], (entry - first) / group_keys));
    }
    store_keys(decode_keys(next), pages[turn ^ 1]);
  }
}

__device__ void score_run(const IndexWork& work, const RowRun& run, PageKeys (&pages)[2]) {
  bool is_scored = false;
  for (int r = 0; r < run.count; ++r) is_scored = is_scored || !work.rows[run.base + r].takes_all;
  if (is_scored) return score_pages(work, run, pages);
  if (own_warp() >= run.count) return;
  const IndexSource& row = work.rows[run.base + own_warp()];
  for (int i = own_lane(); i < tile_span; i += warp_size) store_score(work, row, run.first + i, 0);
}

__device__ bool has_same_entries(const IndexSource& a, const IndexSource& b) {
  return a.pool == b.pool && a.pages == b.pages;
}

__global__ void __launch_bounds__(tile_threads, 2) score_tile_kernel(IndexWork work) {
  begin_dependent();
  __shared__ PageKeys pages[2];
  const int base = static_cast<int>(blockIdx.y) * tile_rows, left = static_cast<int>(work.row_count) - base;
  const int rows = left < tile_rows ? left : tile_rows;
  for (int begin = 0; begin < rows;) {
    RowRun run{base + begin, 0, static_cast<int>(blockIdx.x) * tile_span, 0};
    for (; begin < rows && has_same_entries(work.rows[run.base], work.rows[base + begin]); ++begin, ++run.count) {
      const int visible = work.rows[base + begin].visible;
      run.visible = run.visible < visible ? visible : run.visible;
    }
    if (run.first < run.visible) score_run(work, run, pages);
    __syncthreads();  // the next run has keys of its own
  }
}

}  // namespace

cudaError_t score_tiles(cudaStream_t stream, const IndexWork& work) {
  const dim3 grid(static_cast<unsigned>((work.visible_most + tile_span - 1) / tile_span),
                  static_cast<unsigned>((work.row_count + tile_rows - 1) / tile_rows));
  return launch_dependent(stream, {grid, tile_threads, 1, 0}, score_tile_kernel, work);
}

}  // namespace tandem::gpu::cuda
