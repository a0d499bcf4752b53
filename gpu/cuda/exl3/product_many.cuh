// The product of product.cuh for 17..64 rows: the same sums in the same order, rows through shared memory.
//
// Loop     the block's warps step together: while they decode one input group each, cp.async brings the rows of the
//          next ones (128 bytes a row and group, at most 32 KB a stage). Each decoded fragment is used for all rows.
// Limit    decode and tensor cores alike at 64 rows: 16 * 8 mma beside the decode of 4,096 weights.
#pragma once

#include "gpu/cuda/exl3/product_parts.cuh"

namespace tandem::gpu::cuda {

// One stage in shared memory: [warp][row][8 pieces of 16 bytes], pieces swizzled so that two rows differ in bank.
template <int tiles, int block_warps>
struct RowStage {
  static constexpr int rows = 8 * tiles;
  uint4 piece[block_warps * rows * 8];

  static __device__ __forceinline__ int index(int turn, int row, int piece_of_row) {
    return (turn * rows + row) * 8 + (piece_of_row ^ (row % 2 * 4));
  }

  // Starts copying the rows of groups `group` .. `group + block_warps - 1`.
  __device__ __forceinline__ void start(const ProductJob& job, const Place& place, int group) {
    const int row_pieces = job.inputs / 8;
    const auto* values = static_cast<const uint4*>(job.rotated.values);
#pragma unroll
    for (int i = 0; i < rows / 8; ++i) {
      const int slot = static_cast<int>(threadIdx.x) + i * 64 * block_warps;
      const int turn = slot / (rows * 8), row = slot / 8 % rows, piece_of_row = slot % 8;
      const bool is_there = row < place.part.rows && group + turn < place.end;
      const std::int64_t source =
          static_cast<std::int64_t>(place.part.first + row) * row_pieces + (group + turn) * 8 + piece_of_row;
      copy_async(&piece[index(turn, row, piece_of_row)], values + (is_there ? source : 0), is_there);
    }
  }
};

template <int bits, Exl3Codebook codebook, int tiles, int block_warps>
__device__ __forceinline__ void multiply_group(const LaneStream<bits>& stream,
                                               const RowStage<tiles, block_warps>& stage, Sums<tiles>& sums) {
  const int lane = threadIdx.x % 32, turn = threadIdx.x / 64;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    uint4 half[tiles];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      half[tile] = stage.piece[RowStage<tiles, block_warps>::index(turn, 8 * tile + lane / 4, 4 * j + lane % 4)];
    }
#pragma unroll
    for (int q = 2 * j; q < 2 * j + 2; ++q) {
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) step<bits, codebook, tiles>(stream, quad, q, half, sums[quad]);
    }
  }
}

// Shared memory of a block. The inbox takes the place of the stages, so other blocks may write only after this one has
// arrived at the cluster's barrier behind its last stage.
template <int tiles, int block_warps>
struct ManyRowsMemory {
  union {
    RowStage<tiles, block_warps> stages[2];
    __align__(16) float inbox[inbox_size<tiles>];
  };
  __align__(16) float plane[8 * tiles * partial_stride];
  float undo[8 * tiles];
};

// The share of warps round * block_warps .. (round + 1) * block_warps - 1 of `input_warps`: their sums.
template <int bits, Exl3Codebook codebook, int tiles, int input_warps, int block_warps>
__device__ __forceinline__ void sum_round(const ProductJob& job, const Place& place, int round,
                                          RowStage<tiles, block_warps> (&stages)[2], Sums<tiles>& sums) {
  const int warp = threadIdx.x / 32, half = warp % 2, turn = warp / 2;
  const uint4* words = words_of<bits>(place, job.inputs, half);
  const int first = place.first + round * block_warps;
  LanePieces<bits> next;
  if (first + turn < place.end) next.load(words + static_cast<std::int64_t>(first + turn) * bits * 32);
  if (round == 0) wait_for_earlier_kernels();
  stages[0].start(job, place, first);
  int now = 0;
  for (int group = first; group < place.end; group += input_warps, now ^= 1) {
    wait_for_copies();
    __syncthreads();  // the stage is complete, and nobody reads the other one any more
    const int after = group + input_warps;
    if (after < place.end) stages[now ^ 1].start(job, place, after);
    if (group + turn >= place.end) continue;
    const LaneStream<bits> stream(next);
    if (after + turn < place.end) next.load(words + static_cast<std::int64_t>(after + turn) * bits * 32);
    multiply_group<bits, codebook, tiles, block_warps>(stream, stages[now], sums);
  }
  wait_for_copies();
  __syncthreads();
}

// Warps along the inputs that a block really has: each keeps the sums of 64 rows in registers. Two blocks of 2 hide
// each other's waits; few column blocks want 4.
template <int input_warps>
inline constexpr int many_rows_warps = input_warps <= 4 ? 2 : 4;

// `input_warps` is the order of sums that the shape asks for; the block takes them in rounds.
template <int bits, Exl3Codebook codebook, int tiles, int input_warps>
__global__ void __launch_bounds__(64 * many_rows_warps<input_warps>, 4 / many_rows_warps<input_warps>)
    product_many_kernel(const __grid_constant__ ProductJob job) {
  constexpr int block_warps = many_rows_warps<input_warps>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& memory = *reinterpret_cast<ManyRowsMemory<tiles, block_warps>*>(shared_bytes);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp % 2, turn = warp / 2;
  const Place place = place_of(job, bits, codebook);
  if (place.part.rows == 0) {
    wait_for_earlier_kernels();  // who finishes before them would let the next kernel overtake them
    return;
  }
  let_next_kernel_start();
  for (int round = 0; round < input_warps / block_warps; ++round) {
    Sums<tiles> sums = {};
    sum_round<bits, codebook, tiles, input_warps, block_warps>(job, place, round, memory.stages, sums);
    for (int i = 0; i < block_warps; ++i) {
      if (turn == i) put_sums<tiles>(memory.plane, sums, half, round + i > 0);
      __syncthreads();
    }
  }
  if (job.slices > 1) cluster_arrive();
  load_undo(job, place, memory.undo);
  const uint2 svh = load_scales(place.part.svh, place.block * exl3_block + 4 * lane);
  __syncthreads();
  finish_block(job, place, {memory.plane, 1, 0, memory.undo, memory.inbox}, svh);
}

}  // namespace tandem::gpu::cuda
