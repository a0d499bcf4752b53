// The scores of index_score.cu for rows that may choose among candidate blocks of eight entries only, and the choice
// among them: nothing is written, read or stepped over that is no candidate.
//
// Shapes   masks of up to 1 M / 8 bits a row, of which up to IndexWork::listed_most are set; X4 records of 128
//          dimensions, up to 32 heads. A block is four warps and up to `share_most` candidate blocks of one row.
// Work     every block counts the bits before its share, lists its own ascending, and scores them a group of 32 keys a
//          warp and pass. The choice (index_shortlist.cuh) then reads eight scores a listed block.
// Order    scores: gpu/index_order.hpp, as in index_score_tile.cu: the same bits. The list ascends, so equal scores go
//          to the lower entry as they do without a list.
// Bytes    the mask for each share, 68 a candidate key and row, 16 KB of queries a warp, from the second-level cache;
//          4 out a key and 4 a block.
// Limit    instructions, by count: some 170 for eight keys, 16 of them matrix instructions.
// Masks    bits of entries behind the last visible one count for nothing.
// Plain    gpu/cpu/index_ops.cpp; the test is equality.
#include <math_constants.h>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_heads.cuh"
#include "gpu/cuda/index_shortlist.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace indexing;

static_assert(tile_keys == listed_block_entries);

constexpr int share_warps = 4;
constexpr int share_threads = share_warps * warp_size;
constexpr int share_step = share_warps * group_tiles;  // candidate blocks of one pass
constexpr int share_most = 512;
constexpr std::int64_t shares_wanted = 1024;  // some eight a multiprocessor

constexpr int word_bits = 32;  // of a mask, read by halves of its words

struct Share {
  int warp_counts[share_warps];
  int blocks[share_most];
};

// The candidate blocks of the row among the 32 of word `number`.
__device__ unsigned candidates_of(const IndexSource& row, int number) {
  const int blocks = (row.visible + tile_keys - 1) / tile_keys, left = blocks - number * word_bits;
  if (left <= 0) return 0;
  const unsigned word = reinterpret_cast<const std::uint32_t*>(row.candidates)[number];
  return left >= word_bits ? word : word & ((1U << left) - 1U);
}

// Lists the candidate blocks number first .. first + most - 1 of the row. Returns how many candidate blocks it has, to
// all threads.
__device__ int list_share(const IndexSource& row, int first, int most, Share& share) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int words = (row.visible + tile_keys * word_bits - 1) / (tile_keys * word_bits);
  // Whole warps of words a warp, so that neighbours read neighbours.
  const int own = (words + share_threads - 1) / share_threads * warp_size, begin = warp * own;
  int count = 0;
#pragma unroll 4
  for (int at = begin; at < begin + own; at += warp_size) count += __popc(candidates_of(row, at + lane));
  count = __reduce_add_sync(full_warp, count);
  if (lane == 0) share.warp_counts[warp] = count;
  __syncthreads();
  int before = 0, all = 0;
  for (int other = 0; other < share_warps; ++other) {
    before += other < warp ? share.warp_counts[other] : 0;
    all += share.warp_counts[other];
  }
  for (int at = begin; at < begin + own && before < first + most && before + count > first; at += warp_size) {
    unsigned left = candidates_of(row, at + lane);
    const int bits = __popc(left), until = selection::scan_lanes(bits);
    const int total = __shfl_sync(full_warp, until, warp_size - 1);
    for (int place = before + until - bits - first; left != 0; left &= left - 1, ++place) {
      if (place < 0 || place >= most) continue;
      share.blocks[place] = (at + lane) * word_bits + __ffs(static_cast<int>(left)) - 1;
    }
    before += total;
    count -= total;
  }
  __syncthreads();
  return all;
}

__global__ void __launch_bounds__(share_threads, 4) score_candidates_kernel(IndexWork work, int share_blocks) {
  begin_dependent();
  __shared__ Share share;
  const IndexSource& row = work.rows[blockIdx.y];
  const int warp = static_cast<int>(threadIdx.x) / warp_size, first = static_cast<int>(blockIdx.x) * share_blocks;
  QueryHeads queries;
  if (!row.takes_all) load_queries(work, row.row, queries);
  const int all = list_share(row, first, share_blocks, share), listed = all < work.listed_most ? all : work.listed_most;
  if (blockIdx.x == 0 && threadIdx.x == 0) *row.listed_count = listed;
  const int own = listed - first < share_blocks ? listed - first : share_blocks;
  for (int i = threadIdx.x; i < own; i += share_threads) row.listed[first + i] = share.blocks[i];
  for (int pass = warp * group_tiles; pass < own; pass += share_step) {
    int tiles[group_tiles];
#pragma unroll
    for (int t = 0; t < group_tiles; ++t) {
      tiles[t] = pass + t < own && !row.takes_all ? share.blocks[pass + t] * tile_keys : row.visible;
    }
    const float score = row.takes_all ? 0.0F : score_tiles_of(row, queries, tiles, row.visible);
    const int at = pass + own_key() / tile_keys, key = own_key() % tile_keys;
    if (at >= own) continue;
    const bool is_visible = share.blocks[at] * tile_keys + key < row.visible;
    row.scores[(first + at) * tile_keys + key] = is_visible ? score : -CUDART_INF_F;
  }
}

__global__ void __launch_bounds__(selection::threads, 2) select_candidates_kernel(IndexWork work) {
  begin_dependent();
  __shared__ selection::Shared shared;
  __shared__ selection::Shortlist list;
  const IndexSource row = work.rows[blockIdx.x];
  const int taken = selection::choose_best(
      row.scores, *row.listed_count * tile_keys, work.topk, shared, list, [&](int position, int index) {
        row.selected[position] = row.listed[index / tile_keys] * tile_keys + index % tile_keys;
      });
  selection::store_rest(work, row, taken);
}

// Candidate blocks of a block of threads: several for each warp where rows are few.
int share_of_block(const IndexWork& work) {
  const std::int64_t even = (work.row_count * work.listed_most + shares_wanted - 1) / shares_wanted;
  return static_cast<int>(even < share_most ? (even + share_step - 1) / share_step * share_step : share_most);
}

}  // namespace

cudaError_t score_candidates(cudaStream_t stream, const IndexWork& work) {
  const int share = share_of_block(work);
  const dim3 grid(static_cast<unsigned>((work.listed_most + share - 1) / share), static_cast<unsigned>(work.row_count));
  return launch_dependent(stream, {grid, share_threads, 1, 0}, score_candidates_kernel, work, share);
}

cudaError_t select_candidates(cudaStream_t stream, const IndexWork& work) {
  const auto rows = static_cast<unsigned>(work.row_count);
  return launch_dependent(stream, {dim3(rows), selection::threads, 1, 0}, select_candidates_kernel, work);
}

}  // namespace tandem::gpu::cuda
