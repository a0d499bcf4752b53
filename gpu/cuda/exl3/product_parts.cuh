// What the product kernels share: the mma step, the fixed order of sums, the way from sums to rows of y.
//
// Block    pairs of warps: two 64-column halves of a 128-column block. A slice of the inputs is a few chains, which
//          take its groups in turn; a pair has a chain or two. The slices of the inputs are the blocks of a cluster.
// Order    a sum runs over the groups of one chain ascending, then over the chains, then over the slices. All three
//          depend on the shape of the matrix alone (split.hpp); how many rows there are changes nothing.
// Sums     travel once: a block adds its warps' sums, undoes the slice's scale (a power of two) and writes each row
//          into the shared memory of the block that owns it (row % slices). No locks, no partial sums in device memory.
#pragma once

#include "gpu/cuda/exl3/cluster.cuh"
#include "gpu/cuda/exl3/elements.cuh"
#include "gpu/cuda/exl3/hadamard.cuh"
#include "gpu/cuda/exl3/lane_stream.cuh"
#include "gpu/cuda/exl3/product.hpp"
#include "gpu/cuda/exl3/use_order.cuh"

namespace tandem::gpu::cuda {

inline constexpr int partial_stride = 132;  // floats of a row of sums: 128 and a bank shift

// Sums of one warp: [column quad][row tile of 8][mma register].
template <int tiles>
using Sums = float[4][tiles][4];

// k-step `q` of column quad `quad`: decode eight weights a lane, multiply with all row tiles. `half` holds the B
// fragments of k-steps q and its neighbour.
template <int bits, Exl3Codebook codebook, int tiles>
__device__ __forceinline__ void step(const LaneStream<bits>& stream, int quad, int q, const uint4 (&half)[tiles],
                                     float (&sums)[tiles][4]) {
  std::uint32_t a[4];
  stream.template fragment<codebook>(4 * quad + q, a);
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const uint4& b = half[tile];
    multiply_add(sums[tile], a, q % 2 == 0 ? b.x : b.z, q % 2 == 0 ? b.y : b.w);
  }
}

// Where this block works. All blocks of a cluster share `part` and `block`.
struct Place {
  ProductPart part;  // rows = 0: nothing to do
  int block = 0;     // 128-column block
  int slice = 0;     // rank in the cluster
  int first = 0;     // input groups of this slice
  int end = 0;
};

// The part that member or group `index` is; no rows if it belongs to another launch.
__device__ __forceinline__ ProductPart part_of(const ProductJob& job, int index, int bits, Exl3Codebook codebook) {
  if (job.groups == nullptr) {
    const Exl3Matrix& matrix = job.members[index].matrix;
    const std::int32_t row = static_cast<std::int32_t>(blockIdx.z) * exl3_rows_max;
    const std::int32_t first = index * job.rows_most + row;
    return {matrix.words, matrix.svh, matrix.bias, first, job.rows_most - row, row, nullptr, index};
  }
  const Exl3Group group = job.groups[index];
  if (group.rows < job.rows_least || group.rows > job.rows_most) return {};
  const Exl3Matrix& matrix = job.tables[blockIdx.z][group.matrix];
  if (matrix.shape.bits != bits || matrix.shape.codebook != codebook) return {};
  const std::int32_t first = static_cast<std::int32_t>(blockIdx.z) * job.table_rows + group.first;
  return {matrix.words, matrix.svh, matrix.bias, first, group.rows, 0};
}

// The part of use `index` in sorted order: up to eight uses of its matrix from this one on, if that many lie before it.
__device__ __forceinline__ ProductPart part_of_use(const ProductJob& job, int index, int bits, Exl3Codebook codebook) {
  const Exl3Matrix& matrix = job.tables[blockIdx.z][job.uses.ids[index]];
  const UseOrder order = order_of_use(job.uses, index);
  if (order.rank % sorted_rows_most != 0 || matrix.shape.bits != bits || matrix.shape.codebook != codebook) return {};
  const std::int32_t first = static_cast<std::int32_t>(blockIdx.z) * job.table_rows + order.place();
  return {matrix.words, matrix.svh, matrix.bias, first, min(sorted_rows_most, order.count - order.rank), 0};
}

// The rows of a part that one block can take.
__device__ __forceinline__ ProductPart first_rows_of(ProductPart part, std::int32_t rows) {
  part.rows = part.rows < rows ? part.rows : rows;
  return part;
}

// Stores four outputs of row `row` of the part.
__device__ __forceinline__ void store_product(const ProductJob& job, const ProductPart& part, int row, int column,
                                              const float (&v)[4]) {
  if (part.use_of_row != nullptr) {
    store_four(job.y[blockIdx.z], part.use_of_row[row], column, v);
  } else if (job.tables[0] == nullptr) {
    store_four(job.members[part.member].y, part.row + row, column, v);
  } else {
    const std::int32_t first = part.first - static_cast<std::int32_t>(blockIdx.z) * job.table_rows;
    store_four(job.y[blockIdx.z], first + row, column, v);
  }
}

// The same for rows row, row + step, .. of a part whose rows are no uses.
template <int count>
__device__ __forceinline__ void store_products(const ProductJob& job, const ProductPart& part, int row, int step,
                                               int column, const float (&v)[count][4]) {
  if (job.tables[0] == nullptr) {
    store_fours(job.members[part.member].y, part.row + row, step, part.rows - row, column, v);
  } else {
    const std::int32_t first = part.first - static_cast<std::int32_t>(blockIdx.z) * job.table_rows;
    store_fours(job.y[blockIdx.z], first + row, step, part.rows - row, column, v);
  }
}

// Column block and slice of this block, the part still unknown.
__device__ __forceinline__ Place place_of_slice(const ProductJob& job) {
  constexpr int groups_a_block = exl3_block / exl3_group;
  const int slice = static_cast<int>(blockIdx.x) % job.slices;
  return {{},
          static_cast<int>(blockIdx.x) / job.slices,
          slice,
          groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice),
          groups_a_block * exl3_slice_begin(job.inputs, job.slices, slice + 1)};
}

__device__ __forceinline__ Place place_of(const ProductJob& job, int bits, Exl3Codebook codebook) {
  Place place = place_of_slice(job);
  int index = static_cast<int>(blockIdx.y);
  if (job.member_blocks > 0 && place.block >= job.member_blocks) {
    place.block -= job.member_blocks;
    index = 1;
  }
  place.part = first_rows_of(part_of(job, index, bits, codebook), exl3_rows_max);
  return place;
}

// The same where the parts may be uses.
__device__ __forceinline__ Place place_of_few(const ProductJob& job, int bits, Exl3Codebook codebook) {
  if (job.uses.ids == nullptr) return place_of(job, bits, codebook);
  Place place = place_of_slice(job);
  place.part = part_of_use(job, static_cast<int>(blockIdx.y), bits, codebook);
  return place;
}

// This lane's piece 0 of input group 0 in the warp's 64 columns.
template <int bits>
__device__ __forceinline__ const uint4* words_of(const Place& place, int inputs, int half) {
  const std::int64_t groups = inputs / exl3_group;
  return static_cast<const uint4*>(place.part.words) + (2 * place.block + half) * groups * bits * 32 + threadIdx.x % 32;
}

// Sums lie as [row][column % 4][32 slots]; column 4*l + i of a row is in slot sum_slot(l) of i. So writing accumulators
// and reading rows are both free of bank conflicts.
__device__ __forceinline__ int sum_slot(int lane) {
  const int upper = lane % 4 / 2, half = lane / 16, g = 2 * (lane % 16 / 4) + lane % 2;
  return upper * 16 + half * 8 + g;
}

// Where accumulator `c` of this lane lies in a plane of sums: its row tile, column quad and half.
__device__ __forceinline__ int sum_place(int tile, int quad, int half, int c) {
  const int lane = threadIdx.x % 32, g = lane / 4, p = lane % 4;
  return (8 * tile + 2 * p + c % 2) * partial_stride + quad * 32 + c / 2 * 16 + half * 8 + g;
}

// Writes, or adds, the sums of column quads `first` .. `first + quads - 1` of a half.
template <int quads, int tiles>
__device__ __forceinline__ void put_sums(float* plane, const float (&sums)[quads][tiles][4], int first, int half,
                                         bool add) {
#pragma unroll
  for (int quad = 0; quad < quads; ++quad) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float* slot = plane + sum_place(tile, first + quad, half, c);
        *slot = add ? *slot + sums[quad][tile][c] : sums[quad][tile][c];
      }
    }
  }
}

// Row `row` of this block's sums belongs into row inbox_row of its owner's inbox.
__device__ __forceinline__ int inbox_row(int row, int slices, int slice) {
  return row / slices * slices + slice;
}

template <int tiles>
inline constexpr int inbox_size = (8 * tiles + exl3_slices_max) * partial_stride;

// Sums of a block in shared memory, and where they go.
struct BlockSums {
  const float* planes;  // [count][size], added in order
  int count = 1;
  int size = 0;
  const float* undo;  // [rows]
  float* inbox;
};

// Adds the planes, undoes the scale and hands each row to its owner's inbox. With one slice that is this block.
__device__ __forceinline__ void deliver_sums(const ProductJob& job, const Place& place, const BlockSums& sums) {
  for (int i = threadIdx.x; i < place.part.rows * 32; i += blockDim.x) {
    const int row = i / 32, offset = row * partial_stride + i % 32 * 4;
    float4 sum = *reinterpret_cast<const float4*>(sums.planes + offset);
    for (int plane = 1; plane < sums.count; ++plane) {
      const float4 other = *reinterpret_cast<const float4*>(sums.planes + plane * sums.size + offset);
      sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
    }
    const float undo = sums.undo[row];
    sum.x *= undo, sum.y *= undo, sum.z *= undo, sum.w *= undo;
    float* slot = sums.inbox + inbox_row(row, job.slices, place.slice) * partial_stride + i % 32 * 4;
    if (job.slices == 1) {
      *reinterpret_cast<float4*>(slot) = sum;
    } else {
      write_to_rank(slot, row % job.slices, sum);
    }
  }
}

// What a lane's four outputs are multiplied with and have added behind the transform.
struct OutputScales {
  uint2 svh, bias;
  bool has_bias;

  __device__ __forceinline__ OutputScales(const ProductPart& part, int column, uint2 svh_values)
      : svh(svh_values), bias(make_uint2(0, 0)), has_bias(part.bias != nullptr) {
    if (has_bias) bias = load_scales(part.bias, column);
  }
  __device__ __forceinline__ OutputScales(const ProductPart& part, int column)
      : OutputScales(part, column, load_scales(part.svh, column)) {}

  __device__ __forceinline__ void apply(float (&v)[4]) const {
    float scale[4];
    scale_values(svh, scale);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = v[i] * hadamard_scale * scale[i];
    if (!has_bias) return;
    scale_values(bias, scale);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] += scale[i];
  }
};

// One row of 128 outputs, four sums a lane: transformed back, scaled and written.
__device__ __forceinline__ void write_row(const ProductJob& job, const ProductPart& part, int row, int column,
                                          uint2 svh, float (&v)[4]) {
  hadamard_128(v, threadIdx.x % 32);
  OutputScales(part, column, svh).apply(v);
  store_product(job, part, row, column, v);
}

// Rows first, first + step, .. of the part, whose sums lie in `sums` row by row: transformed, scaled and written,
// `near` of them at a time. Loads, exchanges and stores of these wait for each other.
template <int near>
__device__ __forceinline__ void write_rows(const ProductJob& job, const ProductPart& part, int first, int step,
                                           int column, uint2 svh, const float* sums) {
  const int lane = threadIdx.x % 32;
  const OutputScales scales(part, column, svh);
  const float* slots = sums + sum_slot(lane);
#pragma unroll 1
  for (int row = first; row < part.rows; row += near * step) {
    float v[near][4];
#pragma unroll
    for (int i = 0; i < 4 * near; ++i) {
      const int own = min(row + i / 4 * step, part.rows - 1);
      v[i / 4][i % 4] = slots[own * partial_stride + i % 4 * 32];
    }
    hadamard_128(v, lane);
#pragma unroll
    for (float(&own)[4] : v) scales.apply(own);
    store_products(job, part, row, step, column, v);
  }
}

// One row of the inbox: slices added in rank order.
__device__ __forceinline__ void finish_row(const ProductJob& job, const Place& place, const float* inbox, int row,
                                           uint2 svh) {
  const int lane = threadIdx.x % 32;
  const float* slot = inbox + inbox_row(row, job.slices, 0) * partial_stride + sum_slot(lane);
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = slot[32 * i];
#pragma unroll
  for (int rank = 1; rank < exl3_slices_max; ++rank) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (rank < job.slices) v[i] += slot[rank * partial_stride + 32 * i];
    }
  }
  write_row(job, place.part, row, place.block * exl3_block + 4 * lane, svh, v);
}

// After the block's sums lie in shared memory: deliver, meet, finish the rows that this block owns. Every block of the
// cluster has arrived once before, so all of them run and their inboxes may be written.
__device__ __forceinline__ void finish_block(const ProductJob& job, const Place& place, const BlockSums& sums,
                                             uint2 svh) {
  if (job.slices > 1) cluster_wait();
  deliver_sums(job, place, sums);
  if (job.slices > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int row = place.slice + job.slices * (static_cast<int>(threadIdx.x) / 32); row < place.part.rows;
       row += job.slices * warps) {
    finish_row(job, place, sums.inbox, row, svh);
  }
}

// The factors of rows that were rotated before, into shared memory.
__device__ __forceinline__ void load_undo(const ProductJob& job, const Place& place, float* undo) {
  for (int row = threadIdx.x; row < place.part.rows; row += blockDim.x) {
    undo[row] = job.rotated.undo[(place.part.first + row) * exl3_slices_max + place.slice];
  }
}

}  // namespace tandem::gpu::cuda
