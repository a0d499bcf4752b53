// The scores of index_score.cu for few rows, or for rows with candidates that index_candidates.cu does not take: a warp
// has keys of its own.
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

// Keys of a warp, whole groups.
std::int64_t share_of_warp(const IndexWork& work) {
  const std::int64_t even = (work.row_count * work.visible_most + warps_wanted - 1) / warps_wanted;
  const std::int64_t bounded = even < warp_keys_most ? even : warp_keys_most;
  return (bounded + group_keys - 1) / group_keys * group_keys;
}

}  // namespace

cudaError_t score_rows(cudaStream_t stream, const IndexWork& work) {
  const std::int64_t warp_keys = share_of_warp(work), block_keys = row_warps * warp_keys;
  const dim3 grid(static_cast<unsigned>((work.visible_most + block_keys - 1) / block_keys),
                  static_cast<unsigned>(work.row_count));
  return launch_dependent(stream, {grid, row_warps * warp_size, 1, 0}, score_row_kernel, work,
                          static_cast<int>(warp_keys));
}

}  // namespace tandem::gpu::cuda
