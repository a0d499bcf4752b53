// The scores of index_score.cu for few rows, or for rows that may choose among candidates only: a warp has keys of its
// own.
//
// Shapes   a block is four warps of one row; a warp has `warp_keys` keys and passes over eight that are no candidates.
//          X4 records of 128 dimensions, up to 32 heads.
// Order    gpu/index_order.hpp, as in index_score_tile.cu: the same bits.
// Bytes    68 a candidate key and row; 16 KB of queries a warp, from the second-level cache; 4 out an entry.
// Limit    instructions, by count: some 170 for eight keys, 16 of them matrix instructions.
// Masks    bits of entries behind the last visible one count for nothing.
#include <math_constants.h>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_heads.cuh"
#include "gpu/cuda/index_score.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace indexing;

constexpr int row_warps = 4;
constexpr std::int64_t warps_wanted = 4096;    // some 16 a multiprocessor, twice
constexpr std::int64_t warp_keys_most = 2048;  // so that the queries count little

// Whether any of the eight entries from `first` on may be chosen; the same in the whole warp.
__device__ bool has_candidate(const IndexSource& row, int first, int block_size) {
  if (first >= row.visible) return false;
  if (row.candidates == nullptr) return true;
  bool has = false;
  for (int b = first / block_size; b <= (first + tile_keys - 1) / block_size; ++b) {
    has = has || (b * block_size < row.visible && is_candidate(row, b * block_size, block_size));
  }
  return has;
}

// The score of this lane's key of the group whose tiles begin at `tiles`; a tile at `visible` is none. The same tiles
// in all lanes.
__device__ float score_tiles_of(const IndexSource& row, const QueryHeads& queries, const int (&tiles)[group_tiles],
                                int visible) {
  KeyCodes codes[group_tiles];  // asked for together: a warp waits once
#pragma unroll
  for (int t = 0; t < group_tiles; ++t) codes[t] = load_codes(row, tiles[t], visible);
  float lanes_of_key[group_tiles][2] = {};
#pragma unroll
  for (int t = 0; t < group_tiles; ++t) {
    if (tiles[t] < visible) add_heads(queries, decode_keys(codes[t]), lanes_of_key[t]);
  }
  return add_lanes(lanes_of_key);
}

__global__ void __launch_bounds__(row_warps* warp_size, 4) score_row_kernel(IndexWork work, int warp_keys) {
  begin_dependent();
  const IndexSource& row = work.rows[blockIdx.y];
  const int warp = static_cast<int>(threadIdx.x) / warp_size, visible = row.visible;
  const int begin = (static_cast<int>(blockIdx.x) * row_warps + warp) * warp_keys;
  const int end = begin + warp_keys < visible ? begin + warp_keys : visible;
  if (begin >= end) return;
  QueryHeads queries;
  if (!row.takes_all) load_queries(work, row.row, queries);
  for (int first = begin; first < end; first += group_keys) {
    int tiles[group_tiles];
#pragma unroll
    for (int t = 0; t < group_tiles; ++t) {
      const int keys = first + t * tile_keys;
      tiles[t] = !row.takes_all && has_candidate(row, keys, work.block_size) ? keys : visible;
    }
    store_score(work, row, first + own_key(), score_tiles_of(row, queries, tiles, visible));
  }
}

// ---- rows with candidate blocks of eight entries: their blocks are found by the bits of the mask ----

constexpr int word_keys = 32 * tile_keys;  // of half a mask word

// The candidate blocks from entry `first` on, before `end`.
struct CandidateBlocks {
  const std::uint32_t* words;
  int first, end;
  std::uint32_t left;

  // The first entry of the next block; `end` or more behind the last one.
  __device__ int next() {
    while (left == 0) {
      first += word_keys;
      if (first >= end) return end;
      left = words[first / word_keys];
    }
    const int block = first + tile_keys * (__ffs(static_cast<int>(left)) - 1);
    left &= left - 1;
    return block;
  }
};

__global__ void __launch_bounds__(row_warps* warp_size, 4) score_candidates_kernel(IndexWork work, int warp_keys) {
  begin_dependent();
  const IndexSource& row = work.rows[blockIdx.y];
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int begin = (static_cast<int>(blockIdx.x) * row_warps + warp) * warp_keys;
  const int end = begin + warp_keys < row.visible ? begin + warp_keys : row.visible;
  if (begin >= end) return;
  if (row.takes_all) {
    for (int entry = begin + lane; entry < end; entry += warp_size) store_score(work, row, entry, 0);
    return;
  }
  for (int entry = begin + lane; entry < end; entry += warp_size) row.scores[entry] = -CUDART_INF_F;
  QueryHeads queries;
  load_queries(work, row.row, queries);
  __syncwarp();  // scores come after what they replace
  const auto* words = reinterpret_cast<const std::uint32_t*>(row.candidates);
  CandidateBlocks blocks_left{words, begin, end, words[begin / word_keys]};
  int tiles[group_tiles] = {blocks_left.next()};
  for (; tiles[0] < end; tiles[0] = blocks_left.next()) {
#pragma unroll
    for (int t = 1; t < group_tiles; ++t) tiles[t] = blocks_left.next();
    const float score = score_tiles_of(row, queries, tiles, end);
    int own = end;
#pragma unroll
    for (int t = 0; t < group_tiles; ++t) own = own_key() / tile_keys == t ? tiles[t] + own_key() % tile_keys : own;
    if (own < end) row.scores[own] = score;
  }
}

// Keys of a warp, a multiple of `step`.
std::int64_t share_of_warp(const IndexWork& work, std::int64_t step) {
  const std::int64_t even = (work.row_count * work.visible_most + warps_wanted - 1) / warps_wanted;
  const std::int64_t bounded = even < warp_keys_most ? even : warp_keys_most;
  return (bounded + step - 1) / step * step;
}

template <class Kernel>
cudaError_t launch_rows(cudaStream_t stream, const IndexWork& work, const Kernel& kernel, std::int64_t warp_keys) {
  const std::int64_t block_keys = row_warps * warp_keys;
  const dim3 grid(static_cast<unsigned>((work.visible_most + block_keys - 1) / block_keys),
                  static_cast<unsigned>(work.row_count));
  return launch_dependent(stream, {grid, row_warps * warp_size, 1, 0}, kernel, work, static_cast<int>(warp_keys));
}

}  // namespace

cudaError_t score_rows(cudaStream_t stream, const IndexWork& work) {
  if (work.narrows && work.block_size == tile_keys) {
    return launch_rows(stream, work, score_candidates_kernel, share_of_warp(work, word_keys));
  }
  return launch_rows(stream, work, score_row_kernel, share_of_warp(work, group_keys));
}

}  // namespace tandem::gpu::cuda
