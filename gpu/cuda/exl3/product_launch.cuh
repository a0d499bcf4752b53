// From a job to the kernel that serves it: codebook, warps along the inputs, rows. Body of product_k<bits>.cu.
#pragma once

#include <algorithm>

#include "gpu/cuda/exl3/product.cuh"
#include "gpu/cuda/exl3/product_chunk.cuh"
#include "gpu/cuda/exl3/product_expert.cuh"
#include "gpu/cuda/exl3/product_many.cuh"
#include "gpu/cuda/exl3/product_uses.cuh"
#include "gpu/cuda/exl3/product_warpgroup.cuh"
#include "gpu/cuda/exl3/row_map.hpp"
#include "gpu/cuda/exl3/split.hpp"

namespace tandem::gpu::cuda {

inline constexpr std::size_t block_memory_max = 101376;  // GB10
inline constexpr std::size_t block_memory_max_hopper = 232448;

inline cudaError_t launch_with_memory(cudaStream_t stream, const LaunchShape& shape, void (*kernel)(ProductJob),
                                      const ProductJob& job) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
  return error != cudaSuccess ? error : launch_dependent(stream, shape, kernel, job);
}

template <int bits, Exl3Codebook codebook, int tiles, int chains, int pairs, bool rotates, int warps = 16>
cudaError_t launch_few_rows(cudaStream_t stream, LaunchShape shape, const ProductJob& job) {
  static_assert(sizeof(ProductMemory<tiles, chains, rotates>) <= block_memory_max);
  shape.threads = 64 * pairs;
  shape.shared_bytes = sizeof(ProductMemory<tiles, chains, rotates>);
  return launch_with_memory(stream, shape, product_kernel<bits, codebook, tiles, chains, pairs, rotates, warps>, job);
}

// Groups fill a card together: half the warps, each for two chains, wait less for their first words.
template <int bits, Exl3Codebook codebook, int tiles, int chains>
cudaError_t launch_rotated_rows(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job) {
  if constexpr (chains == exl3_group_chains) {
    constexpr int pairs = chains / 2;
    if (job.groups != nullptr) return launch_few_rows<bits, codebook, tiles, chains, pairs, false>(stream, shape, job);
    // The registers of few bits leave room for half as many warps again.
    if constexpr (tiles == 1 && bits <= 3 && codebook == Exl3Codebook::mul1) {
      constexpr int warps = 24;
      if (job.uses.ids != nullptr) {
        return launch_few_rows<bits, codebook, tiles, chains, chains, false, warps>(stream, shape, job);
      }
    }
  }
  return launch_few_rows<bits, codebook, tiles, chains, chains, false>(stream, shape, job);
}

template <int bits>
cudaError_t launch_uses(cudaStream_t stream, LaunchShape shape, const ProductJob& job) {
  constexpr int chains = exl3_group_chains;
  static_assert(sizeof(UsesMemory<chains>) + use_rows_bytes_max <= block_memory_max);
  const auto rows = static_cast<std::size_t>(job.rows_most) * static_cast<std::size_t>(job.row_stride);
  shape.threads = 64 * chains;
  shape.shared_bytes = sizeof(UsesMemory<chains>) + rows * sizeof(__half);
  return launch_with_memory(stream, shape, product_uses_kernel<bits, chains>, job);
}

template <int bits, Exl3Codebook codebook, int input_warps>
cudaError_t launch_many_rows(cudaStream_t stream, LaunchShape shape, const ProductJob& job) {
  constexpr int block_warps = many_rows_warps<input_warps>;
  static_assert(sizeof(ManyRowsMemory<block_warps>) <= block_memory_max);
  shape.threads = 32 * warps_of_group * block_warps;
  shape.shared_bytes = sizeof(ManyRowsMemory<block_warps>);
  return launch_with_memory(stream, shape, product_many_kernel<bits, codebook, input_warps>, job);
}

template <int bits, Exl3Codebook codebook, int row_warps>
cudaError_t launch_chunk(cudaStream_t stream, LaunchShape shape, const ProductJob& job) {
  static_assert(sizeof(ChunkMemory<row_warps>) <= (row_warps == 2 ? block_memory_max : block_memory_max_hopper));
  shape.threads = ChunkMemory<row_warps>::threads;
  shape.shared_bytes = sizeof(ChunkMemory<row_warps>);
  return launch_with_memory(stream, shape, product_chunk_kernel<bits, codebook, row_warps>, job);
}

// `shape` counts the tiles of a member, or those of a pair; one row of blocks takes those of all.
template <int bits>
cudaError_t launch_warpgroups(cudaStream_t stream, LaunchShape shape, ProductJob job) {
  static_assert(sizeof(WarpgroupMemory) <= block_memory_max_hopper);
  const auto kernel = product_warpgroup_kernel<bits>;
  const bool is_pair = job.member_blocks > 0;
  job.member_count = is_pair ? 2 : static_cast<int>(shape.grid.y);
  if (!is_pair) {
    job.member_blocks = job.column_blocks;
    job.column_blocks *= job.member_count;
  }
  shape.grid = dim3(std::min(shape.grid.x * shape.grid.y, multiprocessors()));
  shape.threads = warpgroup_block_threads;
  shape.shared_bytes = sizeof(WarpgroupMemory);
  CUtensorMap rows;
  cudaError_t error = map_rotated_rows(job.rotated, {job.inputs, job.rows_most * job.member_count}, rows);
  if (error != cudaSuccess) return error;
  error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
  return error != cudaSuccess ? error : launch_dependent(stream, shape, kernel, job, rows);
}

template <int bits, Exl3Codebook codebook, int input_warps>
cudaError_t launch_product(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job) {
  if (job.rotates) return launch_few_rows<bits, codebook, 1, input_warps, input_warps, true>(stream, shape, job);
  if (job.rows_most <= 8) return launch_rotated_rows<bits, codebook, 1, input_warps>(stream, shape, job);
  if (job.rows_most <= 16) return launch_rotated_rows<bits, codebook, 2, input_warps>(stream, shape, job);
  return launch_many_rows<bits, codebook, input_warps>(stream, shape, job);
}

// Chunks: no division of the inputs needs a kernel of its own. Two column quads a warp of 6 bits and more do not fit
// into Hopper's registers: those of small blocks go to large ones, and some blocks have nothing to do.
template <int bits>
cudaError_t launch_chunk_of_bits(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job) {
  if constexpr (has_warpgroups) {
    if (job.rotated.order == Exl3Order::steps) return launch_warpgroups<bits>(stream, shape, job);
  }
  constexpr int few = has_large_chunks && bits >= 6 ? 4 : 2, many = has_large_chunks ? 4 : 2;
  if (job.codebook == Exl3Codebook::mcg) return launch_chunk<bits, Exl3Codebook::mcg, few>(stream, shape, job);
  if (job.codebook == Exl3Codebook::three_inst) {
    return launch_chunk<bits, Exl3Codebook::three_inst, few>(stream, shape, job);
  }
  if (job.block_rows == chunk_rows_large) return launch_chunk<bits, Exl3Codebook::mul1, many>(stream, shape, job);
  return launch_chunk<bits, Exl3Codebook::mul1, few>(stream, shape, job);
}

template <int bits>
cudaError_t launch_walks(cudaStream_t stream, LaunchShape shape, const ProductJob& job) {
  static_assert(sizeof(ExpertMemory) <= block_memory_max);
  if constexpr (has_warpgroups) {
    shape.threads = warpgroup_threads;
    shape.shared_bytes = sizeof(ExpertMemory);
    const auto kernel = product_expert_kernel<bits, Exl3Codebook::mul1>;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    return error != cudaSuccess ? error : launch_dependent(stream, shape, kernel, job, ExpertSteps(job));
  }
  return cudaErrorNotSupported;
}

// MUL1, the codebook of the released packs, has a kernel for each division of the inputs; the others have one.
template <int bits>
cudaError_t launch_product_of_bits(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job) {
  if (job.uses.ids != nullptr && job.rotated.values == nullptr) return launch_uses<bits>(stream, shape, job);
  if (job.groups != nullptr && job.rotated.order == Exl3Order::steps) return launch_walks<bits>(stream, shape, job);
  if (job.block_rows > 0) return launch_chunk_of_bits<bits>(stream, shape, job);
  if (job.codebook == Exl3Codebook::mul1) {
    if (job.warps == 8) return launch_product<bits, Exl3Codebook::mul1, 8>(stream, shape, job);
    return launch_product<bits, Exl3Codebook::mul1, 4>(stream, shape, job);
  }
  if (job.codebook == Exl3Codebook::mcg) return launch_product<bits, Exl3Codebook::mcg, 4>(stream, shape, job);
  return launch_product<bits, Exl3Codebook::three_inst, 4>(stream, shape, job);
}

}  // namespace tandem::gpu::cuda
