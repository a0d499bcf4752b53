// The product of product.cuh for uses in sorted order, by blocks that stay: while one of a block's products is
// finished, the first words of its next one are on their way.
//
// Items    (table, use, 128-column block), the last one fastest; a cluster, one block a slice, takes every n-th. Uses
//          that are not the first eighth, ninth .. of their matrix have nothing to do: an earlier one's items do
//          theirs.
// Order    sums are those of product.cuh, a pair of warps for each chain.
// Bytes    inputs * outputs * K / 8 a matrix and eight uses of it; ids and rows from the caches.
// Limit    as product.cuh.
#pragma once

#include "gpu/cuda/exl3/product.cuh"

namespace tandem::gpu::cuda {

// A product of a block, found by a warp; behind the last one there are no rows.
struct SortedItem {
  ProductPart part;
  std::int32_t number = 0;
  std::int32_t block = 0;  // 128-column block
};

template <int chains>
struct SortedMemory {
  __align__(16) float planes[chains * plane_size<1>];
  __align__(16) float inbox[inbox_size<1>];
  float undo[sorted_rows_most];
  SortedItem items[3];  // the one that is finished, the present and the next one
};

// The first item from `number` on, in steps of `step`, that has something to do. By all threads of a warp.
__device__ __forceinline__ SortedItem find_item(const ProductJob& job, int number, int step, int bits) {
  const int a_table = job.uses.count * job.column_blocks, count = job.tables[1] == nullptr ? a_table : 2 * a_table;
  for (; number < count; number += step) {
    const int use = number % a_table / job.column_blocks, table = number / a_table;
    const Exl3Matrix& matrix = job.tables[table][job.uses.ids[use]];
    const UseOrder order = order_of_use(job.uses, use);
    if (order.rank % sorted_rows_most != 0 || matrix.shape.bits != bits) continue;
    if (matrix.shape.codebook != Exl3Codebook::mul1) continue;
    const std::int32_t first = table * job.table_rows + order.place();
    const std::int32_t rows = min(sorted_rows_most, order.count - order.rank);
    return {
        {matrix.words, matrix.svh, matrix.bias, first, rows, 0, nullptr, table}, number, number % job.column_blocks};
  }
  return {};
}

// The registers of K = 4 and less leave room for half as many warps again.
template <int bits>
inline constexpr int sorted_warps = bits <= 4 ? 24 : 16;

template <int bits, int chains>
__global__ void __launch_bounds__(64 * chains, sorted_warps<bits> / (2 * chains))
    product_sorted_kernel(const __grid_constant__ ProductJob job) {
  using Memory = SortedMemory<chains>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(shared_bytes);
  const int lane = threadIdx.x % 32, half = threadIdx.x / 32 % 2, pair = threadIdx.x / 64;
  const int step = static_cast<int>(gridDim.x) / job.slices;
  Place place = place_of_slice(job);  // part and block are those of an item
  const auto turn_to = [&](const SortedItem& item) {
    place.part = item.part;
    place.block = item.block;
  };
  LanePieces<bits> first = {};
  const auto begin = [&] {
    const int group = place.first + pair;
    if (place.part.rows == 0 || group >= place.end) return;
    first.load(words_of<bits>(place, job.inputs, half) + static_cast<std::int64_t>(group) * bits * 32);
  };
  const SortedItem found = find_item(job, static_cast<int>(blockIdx.x) / job.slices, step, bits);
  if (threadIdx.x == 0) memory.items[0] = found;
  turn_to(found);
  begin();
  let_next_kernel_start();
  wait_for_earlier_kernels();
  for (int turn = 0, number = found.number; place.part.rows > 0; turn = (turn + 1) % 3) {
    if (job.slices > 1) cluster_arrive();
    load_undo(job, place, memory.undo);
    SortedItem& next = memory.items[(turn + 1) % 3];
    if (threadIdx.x < 32) {
      const SortedItem after = find_item(job, number + step, step, bits);
      if (lane == 0) next = after;
    }
    const __half* row = static_cast<const __half*>(job.rotated.values) +
                        static_cast<std::int64_t>(place.part.first + lane / 4) * job.inputs;
    const RowPieces rows{reinterpret_cast<const uint4*>(row) + lane % 4, job.inputs / 8, place.part.rows - lane / 4, 0};
    sum_chains<bits, Exl3Codebook::mul1, 1, chains, chains>(place, words_of<bits>(place, job.inputs, half), rows, first,
                                                            memory.planes);
    __syncthreads();
    // Nothing of an item is kept meanwhile: registers are few.
    turn_to(next);
    number = next.number;
    begin();
    Place done = place;
    done.part = memory.items[turn].part;
    done.block = memory.items[turn].block;
    const uint2 svh = load_scales(done.part.svh, done.block * exl3_block + 4 * lane);
    finish_block(job, done, {memory.planes, chains, plane_size<1>, memory.undo, memory.inbox}, svh);
  }
}

}  // namespace tandem::gpu::cuda
