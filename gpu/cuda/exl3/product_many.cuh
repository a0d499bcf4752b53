// The product of product.cuh for 9..64 rows: the same sums in the same order, rows through shared memory.
//
// Shapes   a warp takes 32 outputs of a 64-input group and all rows: the sums of 64 rows leave room for 16 warps on a
//          multiprocessor. It multiplies hardly more row tiles of 8 than there are rows (sum_rows).
// Loop     the block's warps step together: while they decode one input group each, cp.async brings the rows of the
//          next ones (128 bytes a row and group, at most 32 KB a stage). Each decoded fragment is used for all rows.
// Limit    decode and tensor cores alike at 64 rows: 16 * 8 mma beside the decode of 4,096 weights. Experts of 32 rows
//          in the mean, K = 2, on an H200: 470 instructions a warp and group, 288 of them decode and 80 mma; 64 % of
//          the issue slots are used, 29 % of the tensor pipe's clocks and 33 % of those of the first-level memory.
#pragma once

#include "gpu/cuda/exl3/half_stream.cuh"
#include "gpu/cuda/exl3/product_parts.cuh"

namespace tandem::gpu::cuda {

inline constexpr int many_rows_tiles = exl3_rows_max / 8;
inline constexpr int warps_of_group = 4;  // beside each other along 128 outputs

// What a warp does in its block: the 32 outputs from 64 * half + 32 * pair on, every block_warps-th group from `turn`.
struct WarpRole {
  int half = static_cast<int>(threadIdx.x) / 64 % 2;
  int pair = static_cast<int>(threadIdx.x) / 32 % 2;
  int turn = static_cast<int>(threadIdx.x) / 32 / warps_of_group;
  int lane = static_cast<int>(threadIdx.x) % 32;
};

// Rows of one group in shared memory: [row][8 pieces of 16 bytes], swizzled so that two rows differ in bank.
__device__ __forceinline__ int row_place(int row, int piece) {
  return row * 8 + (piece ^ (row % 2 * 4));
}

// The rows of a turn's groups: its 128 threads copy them, a thread the same piece of every 16th row.
template <int tiles>
class RowCopies {
 public:
  __device__ __forceinline__ RowCopies(const ProductJob& job, const ProductPart& part)
      : values_(static_cast<const uint4*>(job.rotated.values) +
                static_cast<std::int64_t>(part.first + own_row()) * (job.inputs / 8) + own_piece()),
        left_(part.rows - own_row()) {}

  __device__ __forceinline__ void start(const ProductJob& job, uint4* stage, int group) const {
    uint4* to = stage + row_place(own_row(), own_piece());
#pragma unroll
    for (int i = 0; i < (tiles + 1) / 2; ++i) {
      const bool is_there = i * row_step < left_;
      const std::int64_t from = static_cast<std::int64_t>(i * row_step) * (job.inputs / 8) + group * 8;
      if (2 * i + 1 == tiles && own_row() >= 8) continue;  // half a step: an odd number of tiles
      copy_async(to + i * row_step * 8, is_there ? values_ + from : job.rotated.values, is_there);
    }
  }

 private:
  static constexpr int row_step = 16;
  static __device__ __forceinline__ int own_row() {
    return static_cast<int>(threadIdx.x) / 8 % row_step;
  }
  static __device__ __forceinline__ int own_piece() {
    return static_cast<int>(threadIdx.x) % 8;
  }

  const uint4* values_;
  int left_;
};

// Sums of one warp: [column quad of its pair][row tile of 8][mma register].
template <int tiles>
using PairSums = float[2][tiles][4];

template <int bits, Exl3Codebook codebook, int tiles>
__device__ __forceinline__ void multiply_group(const HalfStream<bits>& stream, const uint4* rows,
                                               PairSums<tiles>& sums) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    uint4 b[tiles];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) b[tile] = rows[row_place(8 * tile + lane / 4, 4 * j + lane % 4)];
#pragma unroll
    for (int q = 2 * j; q < 2 * j + 2; ++q) {
#pragma unroll
      for (int quad = 0; quad < 2; ++quad) {
        std::uint32_t a[4];
        stream.template fragment<codebook>(4 * quad + q, a);
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
          multiply_add(sums[quad][tile], a, q % 2 == 0 ? b[tile].x : b[tile].z, q % 2 == 0 ? b[tile].y : b[tile].w);
        }
      }
    }
  }
}

// Shared memory of a block. The inbox takes the place of the stages, so other blocks may write only after this one has
// arrived at the cluster's barrier behind its last stage.
template <int block_warps>
struct ManyRowsMemory {
  union {
    uint4 stages[2][block_warps][exl3_rows_max * 8];
    __align__(16) float inbox[inbox_size<many_rows_tiles>];
  };
  __align__(16) float plane[exl3_rows_max * partial_stride];
  float undo[exl3_rows_max];
};

// The share of chains round * block_warps .. (round + 1) * block_warps - 1 of `input_warps`: their sums.
template <int bits, Exl3Codebook codebook, int tiles, int input_warps, int block_warps>
__device__ __forceinline__ void sum_round(const ProductJob& job, const Place& place, int round,
                                          ManyRowsMemory<block_warps>& memory, PairSums<tiles>& sums) {
  constexpr int group_words = bits * 32 * 4;
  const WarpRole role;
  const typename HalfStream<bits>::Place at(role.pair, role.lane);
  const std::uint32_t* words =
      static_cast<const std::uint32_t*>(place.part.words) +
      static_cast<std::int64_t>(2 * place.block + role.half) * (job.inputs / exl3_group) * group_words;
  int group = place.first + round * block_warps + role.turn;
  HalfStream<bits> next;
  if (group < place.end) next.load(words + static_cast<std::int64_t>(group) * group_words, at);
  if (round == 0) wait_for_earlier_kernels();
  const RowCopies<tiles> rows(job, place.part);
  if (group < place.end) rows.start(job, memory.stages[0][role.turn], group);
  int now = 0;
  for (; group - role.turn < place.end; group += input_warps, now ^= 1) {
    wait_for_copies();
    __syncthreads();  // the stage is complete, and nobody reads the other one any more
    const int after = group + input_warps;
    if (after < place.end) rows.start(job, memory.stages[now ^ 1][role.turn], after);
    if (group >= place.end) continue;
    const HalfStream<bits> stream = next;
    if (after < place.end) next.load(words + static_cast<std::int64_t>(after) * group_words, at);
    multiply_group<bits, codebook, tiles>(stream, memory.stages[now][role.turn], sums);
  }
  wait_for_copies();
  __syncthreads();
}

// Chains that a block really has beside each other: each keeps its sums in registers. Two blocks of 2 hide each other's
// waits; few column blocks want 4.
template <int input_warps>
inline constexpr int many_rows_warps = input_warps <= 4 ? 2 : 4;

// The chains of the block's slice, added up in `memory.plane`. `input_warps` is the order of sums that the shape asks
// for; the block takes them in rounds.
template <int bits, Exl3Codebook codebook, int tiles, int input_warps>
__device__ __forceinline__ void sum_slice(const ProductJob& job, const Place& place,
                                          ManyRowsMemory<many_rows_warps<input_warps>>& memory) {
  constexpr int block_warps = many_rows_warps<input_warps>;
  const WarpRole role;
  for (int round = 0; round < input_warps / block_warps; ++round) {
    PairSums<tiles> sums = {};
    sum_round<bits, codebook, tiles, input_warps, block_warps>(job, place, round, memory, sums);
    for (int i = 0; i < block_warps; ++i) {
      if (role.turn == i) put_sums(memory.plane, sums, 2 * role.pair, role.half, round + i > 0);
      __syncthreads();
    }
  }
}

// By the number of rows. Grouped launches, whose orders have two chains, know groups of every size; the others are
// seldom met with more than a few rows.
template <int bits, Exl3Codebook codebook, int input_warps>
__device__ __forceinline__ void sum_rows(const ProductJob& job, const Place& place,
                                         ManyRowsMemory<many_rows_warps<input_warps>>& memory) {
  const int tiles = (place.part.rows + 7) / 8;
  constexpr bool is_grouped = input_warps == 2;
  if (is_grouped && tiles <= 2)
    return sum_slice < bits, codebook, is_grouped ? 2 : 4, input_warps > (job, place, memory);
  if (is_grouped && tiles <= 3)
    return sum_slice < bits, codebook, is_grouped ? 3 : 4, input_warps > (job, place, memory);
  if (tiles <= 4) return sum_slice<bits, codebook, 4, input_warps>(job, place, memory);
  if (is_grouped && tiles <= 5)
    return sum_slice < bits, codebook, is_grouped ? 5 : 8, input_warps > (job, place, memory);
  if (is_grouped && tiles <= 6)
    return sum_slice < bits, codebook, is_grouped ? 6 : 8, input_warps > (job, place, memory);
  sum_slice<bits, codebook, 8, input_warps>(job, place, memory);
}

template <int bits, Exl3Codebook codebook, int input_warps>
__global__ void __launch_bounds__(32 * warps_of_group * many_rows_warps<input_warps>, 4 / many_rows_warps<input_warps>)
    product_many_kernel(const __grid_constant__ ProductJob job) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& memory = *reinterpret_cast<ManyRowsMemory<many_rows_warps<input_warps>>*>(shared_bytes);
  const Place place = place_of(job, bits, codebook);
  if (place.part.rows == 0) {
    wait_for_earlier_kernels();  // who finishes before them would let the next kernel overtake them
    return;
  }
  let_next_kernel_start();
  sum_rows<bits, codebook, input_warps>(job, place, memory);
  if (job.slices > 1) cluster_arrive();
  load_undo(job, place, memory.undo);
  const uint2 svh = load_scales(place.part.svh, place.block * exl3_block + 4 * (static_cast<int>(threadIdx.x) % 32));
  __syncthreads();
  finish_block(job, place, {memory.plane, 1, 0, memory.undo, memory.inbox}, svh);
}

}  // namespace tandem::gpu::cuda
