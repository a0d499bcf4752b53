// y = (((a What) BH) o svh) + bias for 1..16 rows: decode in registers, mma, one fixed order of sums.
//
// Shapes   a [rows, inputs] fp16, rotated before or, for up to 4 rows, by this kernel from x; weights lane-major
//          (layout.hpp); y [rows, outputs] f32, f16 or bf16.
// Grid     x: 128-column blocks x slices of the inputs (one cluster each), y: matrices of a grouped launch.
// Chains   the sums of a slice that split.hpp asks for; a pair of warps (two halves of 64 columns) takes one or, where
//          there are fewer pairs, several in turn.
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
    load_at(rows, rows.lane_piece, (group - rows.first_group) * row_pieces);
  }
  // The same from `at`, where lane_piece of the group is, and pieces further.
  __device__ __forceinline__ void load_at(const RowPieces& rows, const uint4* at, int further = 0) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int piece = 8 * tile * rows.row_pieces + further + 4 * j;
        half[j][tile] = 8 * tile < rows.left ? at[piece] : make_uint4(0, 0, 0, 0);
      }
    }
  }

  static constexpr int row_pieces = 8;  // of a group
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

template <int tiles>
inline constexpr int plane_size = 8 * tiles* partial_stride;

// The one chain of a pair of warps.
template <int bits, Exl3Codebook codebook, int tiles, int chains>
__device__ __forceinline__ void sum_chain(const Place& place, const uint4* words, const RowPieces& rows,
                                          LanePieces<bits>& next, Sums<tiles>& sums) {
  int group = place.first + static_cast<int>(threadIdx.x) / 64;
  RowFragments<tiles> next_rows;
  if (group < place.end) next_rows.load(rows, group);
  while (group < place.end) {
    const LaneStream<bits> stream(next);
    const RowFragments<tiles> now = next_rows;
    group += chains;
    if (group < place.end) {
      next.load(words + static_cast<std::int64_t>(group) * bits * 32);
      next_rows.load(rows, group);
    }
    multiply_group<bits, codebook, tiles>(stream, now, sums);
  }
}

// Words and rows of the group that a pair of warps with several chains multiplies next, and where they come from:
// pointers that move along cost less than addresses of a number.
template <int bits, int tiles>
struct NextGroup {
  int group;
  LanePieces<bits> words;
  RowFragments<tiles> rows;
  const uint4 *words_at, *rows_at;

  __device__ __forceinline__ NextGroup(const Place& place, int first, const LanePieces<bits>& first_words,
                                       const uint4* all_words, const RowPieces& all_rows)
      : group(first),
        words(first_words),
        rows{},
        words_at(all_words + static_cast<std::int64_t>(first) * group_pieces),
        rows_at(all_rows.lane_piece + (first - all_rows.first_group) * rows.row_pieces) {
    if (first < place.end) rows.load_at(all_rows, rows_at);
  }
  // Loads group `to` if the place has it.
  __device__ __forceinline__ void load(const Place& place, const RowPieces& all_rows, int to) {
    words_at += (to - group) * group_pieces;
    rows_at += (to - group) * rows.row_pieces;
    group = to;
    if (to >= place.end) return;
    words.load(words_at);
    rows.load_at(all_rows, rows_at);
  }

 private:
  static constexpr int group_pieces = bits * 32;
};

// Puts the sums of this pair's chains into their planes. `next` has the words of the pair's first group.
template <int bits, Exl3Codebook codebook, int tiles, int chains, int pairs>
__device__ __forceinline__ void sum_chains(const Place& place, const uint4* words, const RowPieces& rows,
                                           LanePieces<bits> next, float* planes) {
  const int half = threadIdx.x / 32 % 2, pair = threadIdx.x / 64;
  if constexpr (chains == pairs) {
    Sums<tiles> sums = {};
    sum_chain<bits, codebook, tiles, chains>(place, words, rows, next, sums);
    return put_sums(planes + pair * plane_size<tiles>, sums, 0, half, false);
  }
  NextGroup<bits, tiles> walk(place, place.first + pair, next, words, rows);
#pragma unroll 1
  for (int chain = pair; chain < chains; chain += pairs) {
    const int later = chain + pairs < chains ? place.first + chain + pairs : place.end;
    Sums<tiles> sums = {};
#pragma unroll 1
    for (int group = place.first + chain; group < place.end; group += chains) {
      const LaneStream<bits> stream(walk.words);
      const RowFragments<tiles> now = walk.rows;
      walk.load(place, rows, group + chains < place.end ? group + chains : later);
      multiply_group<bits, codebook, tiles>(stream, now, sums);
    }
    put_sums(planes + chain * plane_size<tiles>, sums, 0, half, false);
  }
}

// Shared memory of a block.
template <int tiles, int chains, bool rotates>
struct ProductMemory {
  __align__(16) float planes[chains * plane_size<tiles>];
  __align__(16) float inbox[inbox_size<tiles>];
  float undo[8 * tiles];
  std::conditional_t<rotates, OwnRows, float> own;
};

// Gets the rows ready and says where they are. The block's weights are already on their way. The next kernel may start
// when all before this one have ended: some read what those wrote before they wait themselves (attention_split.cu).
template <bool rotates, class Memory>
__device__ __forceinline__ RowPieces prepare_rows(const ProductJob& job, const Place& place, Memory& memory) {
  const int lane = threadIdx.x % 32, g = lane / 4, left = place.part.rows - g;
  if constexpr (rotates) {
    constexpr int groups_a_block = exl3_block / exl3_group;
    const Slice slice{place.first / groups_a_block, (place.end - place.first) / groups_a_block, place.part.rows, 0};
    SliceRotation rotation;
    const Exl3Member& member = job.members[place.part.member];
    rotation.load_suh(member.matrix.suh, slice);
    if (threadIdx.x < rotation_rows_max) memory.own.largest[threadIdx.x] = 0;
    __syncthreads();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    rotation.run(member.x, slice, memory.own.values, OwnRows::stride, memory.own.largest, memory.undo);
    __syncthreads();
    const __half* row = memory.own.values + (left > 0 ? g : 0) * OwnRows::stride;
    return {reinterpret_cast<const uint4*>(row) + lane % 4, OwnRows::stride / 8, left, place.first};
  } else {
    wait_for_earlier_kernels();
    let_next_kernel_start();
    load_undo(job, place, memory.undo);
    const __half* row =
        static_cast<const __half*>(job.rotated.values) + static_cast<std::int64_t>(place.part.first + g) * job.inputs;
    return {reinterpret_cast<const uint4*>(row) + lane % 4, job.inputs / 8, left, 0};
  }
}

// `warps`: how many a multiprocessor has registers for.
template <int bits, Exl3Codebook codebook, int tiles, int chains, int pairs, bool rotates, int warps = 16>
__global__ void __launch_bounds__(64 * pairs, warps / (2 * pairs))
    product_kernel(const __grid_constant__ ProductJob job) {
  using Memory = ProductMemory<tiles, chains, rotates>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(shared_bytes);
  const int lane = threadIdx.x % 32, half = threadIdx.x / 32 % 2, pair = threadIdx.x / 64;
  const Place place = tiles == 1 && !rotates ? place_of_few(job, bits, codebook) : place_of(job, bits, codebook);
  if (place.part.rows == 0) {
    wait_for_earlier_kernels();  // who finishes before them would let the next kernel overtake them
    return;
  }
  if (job.slices > 1) cluster_arrive();

  const uint4* words = words_of<bits>(place, job.inputs, half);
  const int group = place.first + pair;
  LanePieces<bits> first = {};
  if (group < place.end) first.load(words + static_cast<std::int64_t>(group) * bits * 32);
  const uint2 svh = load_scales(place.part.svh, place.block * exl3_block + 4 * lane);
  const RowPieces rows = prepare_rows<rotates>(job, place, memory);
  sum_chains<bits, codebook, tiles, chains, pairs>(place, words, rows, first, memory.planes);
  __syncthreads();
  finish_block(job, place, {memory.planes, chains, plane_size<tiles>, memory.undo, memory.inbox}, svh);
}

}  // namespace tandem::gpu::cuda
