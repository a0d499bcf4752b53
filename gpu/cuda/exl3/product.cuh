// y = (((a What) BH) o svh) + bias for 1..16 rows: decode in registers, mma, one fixed order of sums.
//
// Shapes   a [rows, inputs] fp16, rotated before or, for up to 4 rows, by this kernel from x; weights lane-major
//          (layout.hpp); y [rows, outputs] f32, f16 or bf16.
// Grid     x: 128-column blocks x slices of the inputs (one cluster each), y: matrices of a grouped launch.
// Loop     a warp loads a group (64 x 64 weights, K * 512 bytes) and its rows while it decodes the one before; 128
//          weights a lane go straight into A fragments of mma.m16n8k16 (outputs x inputs), so 8 rows cost one mma for
//          256 weights. No barrier inside. Weights are requested before the kernel waits for its rows.
// Bytes    inputs * outputs * K / 8 once, whatever `rows` is; activations come from the caches.
// Limit    Hopper: the decode (4.4 to 5 instructions a weight); a card with less bandwidth: memory.
#pragma once

#include <type_traits>

#include "gpu/cuda/exl3/product_parts.cuh"
#include "gpu/cuda/exl3/rotation.cuh"

namespace tandem::gpu::cuda {

// Rotated rows of one slice: the piece of row g that lane 4g + p needs first, 16-byte pieces from row to row.
struct RowPieces {
  const uint4* lane_piece;
  int row_pieces;
  int left;         // rows from g on
  int first_group;  // group that lane_piece lies in
};

// The rows of one input group as B fragments of four k-steps: lane 4g + p holds row 8*tile + g.
template <int tiles>
struct RowFragments {
  uint4 half[2][tiles];

  __device__ __forceinline__ void load(const RowPieces& rows, int group) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int piece = 8 * tile * rows.row_pieces + (group - rows.first_group) * 8 + 4 * j;
        half[j][tile] = 8 * tile < rows.left ? rows.lane_piece[piece] : make_uint4(0, 0, 0, 0);
      }
    }
  }
};

template <int bits, Exl3Codebook codebook, int tiles>
__device__ __forceinline__ void multiply_group(const LaneStream<bits>& stream, const RowFragments<tiles>& rows,
                                               Sums<tiles>& sums) {
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
#pragma unroll
    for (int q = 0; q < 4; ++q) step<bits, codebook, tiles>(stream, quad, q, rows.half[q / 2], sums[quad]);
  }
}

// Rows that this kernel rotated: in shared memory, rows 64 bytes apart in bank.
struct OwnRows {
  static constexpr int stride = rotated_inputs_max + 32;
  __align__(16) __half values[rotation_rows_max * stride];
  std::uint32_t largest[rotation_rows_max];
};

// Shared memory of a block.
template <int tiles, int input_warps, bool rotates>
struct ProductMemory {
  static constexpr int plane = 8 * tiles * partial_stride;
  __align__(16) float planes[input_warps * plane];
  __align__(16) float inbox[inbox_size<tiles>];
  float undo[8 * tiles];
  std::conditional_t<rotates, OwnRows, float> own;
};

// Gets the rows ready and says where they are. The block's weights are already on their way.
template <bool rotates, class Memory>
__device__ __forceinline__ RowPieces prepare_rows(const ProductJob& job, const Place& place, Memory& memory) {
  const int lane = threadIdx.x % 32, g = lane / 4, left = place.part.rows - g;
  if constexpr (rotates) {
    constexpr int groups_a_block = exl3_block / exl3_group;
    const Slice slice{place.first / groups_a_block, (place.end - place.first) / groups_a_block, place.part.rows, 0};
    SliceRotation rotation;
    const Exl3Member& member = job.members[blockIdx.y];
    rotation.load_suh(member.matrix.suh, slice);
    if (threadIdx.x < rotation_rows_max) memory.own.largest[threadIdx.x] = 0;
    __syncthreads();
    let_next_kernel_start();
    wait_for_earlier_kernels();
    rotation.run(member.x, slice, memory.own.values, OwnRows::stride, memory.own.largest, memory.undo);
    __syncthreads();
    const __half* row = memory.own.values + (left > 0 ? g : 0) * OwnRows::stride;
    return {reinterpret_cast<const uint4*>(row) + lane % 4, OwnRows::stride / 8, left, place.first};
  } else {
    let_next_kernel_start();
    wait_for_earlier_kernels();
    load_undo(job, place, memory.undo);
    const __half* row =
        static_cast<const __half*>(job.rotated.values) + static_cast<std::int64_t>(place.part.first + g) * job.inputs;
    return {reinterpret_cast<const uint4*>(row) + lane % 4, job.inputs / 8, left, 0};
  }
}

template <int bits, Exl3Codebook codebook, int tiles, int input_warps, bool rotates>
__global__ void __launch_bounds__(64 * input_warps, 8 / input_warps)
    product_kernel(const __grid_constant__ ProductJob job) {
  using Memory = ProductMemory<tiles, input_warps, rotates>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(shared_bytes);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp % 2;
  const Place place = place_of(job, bits, codebook);
  if (place.part.rows == 0) {
    wait_for_earlier_kernels();  // who finishes before them would let the next kernel overtake them
    return;
  }
  if (job.slices > 1) cluster_arrive();

  const uint4* words = words_of<bits>(place, job.inputs, half);
  int group = place.first + warp / 2;
  LanePieces<bits> next;
  if (group < place.end) next.load(words + static_cast<std::int64_t>(group) * bits * 32);
  const uint2 svh = load_scales(place.part.svh, place.block * exl3_block + 4 * lane);
  const RowPieces rows = prepare_rows<rotates>(job, place, memory);

  Sums<tiles> sums = {};
  RowFragments<tiles> next_rows;
  if (group < place.end) next_rows.load(rows, group);
  while (group < place.end) {
    const LaneStream<bits> stream(next);
    const RowFragments<tiles> now = next_rows;
    group += input_warps;
    if (group < place.end) {
      next.load(words + static_cast<std::int64_t>(group) * bits * 32);
      next_rows.load(rows, group);
    }
    multiply_group<bits, codebook, tiles>(stream, now, sums);
  }
  put_sums<tiles>(memory.planes + warp / 2 * Memory::plane, sums, half, false);
  __syncthreads();
  finish_block(job, place, {memory.planes, input_warps, Memory::plane, memory.undo, memory.inbox}, svh);
}

}  // namespace tandem::gpu::cuda
