// The launch argument of the product kernels, and one launch function for each width K (one file each, so that they
// compile in parallel).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/cuda/exl3/launch.hpp"

namespace tandem::gpu::cuda {

struct ProductJob {
  // When `groups` is null blockIdx.y is the member, or of a pair the column block tells; its rotated rows lie behind
  // those of the members before. blockIdx.z counts pieces of exl3_rows_max rows, which share nothing.
  Exl3Member members[exl3_members_max];
  // Else the matrix comes from tables[blockIdx.z] and the rows from groups[blockIdx.y]; where the grid has fewer,
  // blocks of product_chunk.cuh and product_expert.cuh take more than one.
  const Exl3Matrix* tables[2] = {};
  const Exl3Group* groups = nullptr;
  std::int32_t group_count = 0;
  // Or from tables[blockIdx.z] and uses.ids[blockIdx.y]: of uses that are rotated in sorted order or, without rotated
  // values, by product_uses.cuh.
  Exl3Uses uses;
  std::int32_t row_stride = 0;  // fp16 values from row to row of a slice in shared memory
  Exl3Rows y[2];                // of the tables
  std::int32_t table_rows = 0;  // rotated rows of one table
  bool rotates = false;         // true: the kernel rotates rows of x itself; false: `rotated` holds them
  Exl3Rotated rotated;
  std::int32_t inputs = 0;
  std::int32_t slices = 1;
  std::int32_t warps = 4;       // along the inputs
  std::int32_t rows_least = 1;  // groups with fewer or more rows belong to another launch
  std::int32_t rows_most = 0;   // of a group, or the rows of every member
  std::int32_t block_rows = 0;  // of a block of product_chunk.cuh; 0: the kernels whose slices are a cluster
  std::int32_t column_blocks = 0;
  // Where members lie side by side: column blocks of each but the last. 0: they are rows of the grid. Those of a pair
  // always do, and in product_warpgroup.cuh those of a set.
  std::int32_t member_blocks = 0;
  std::int32_t member_count = 1;
  Exl3Codebook codebook = Exl3Codebook::mul1;
};

// Hadamard blocks of a slice that product_uses.cuh rotates, and uses of one launch.
inline constexpr int use_blocks_max = 24, uses_max = 12;
inline constexpr int use_rows_bytes_max = exl3_use_rows_max * (use_blocks_max * exl3_block + 32) * 2;

// Rows that a block takes of uses in sorted order.
inline constexpr int sorted_rows_most = 8;

// What a product kernel has room for when it rotates rows itself.
inline constexpr int rotation_rows_max = 4;
inline constexpr int rotated_inputs_max = 1024;  // of a slice

// Rows of a block of product_chunk.cuh. The large one needs more shared memory than GB10 has, and the codebook MUL1.
inline constexpr int chunk_rows_small = 64, chunk_rows_large = 128;
#ifdef __CUDA_ARCH_LIST__
constexpr bool are_all_hopper(std::initializer_list<int> architectures) {
  for (const int architecture : architectures) {
    if (architecture != 900) return false;
  }
  return true;
}
inline constexpr bool has_large_chunks = are_all_hopper({__CUDA_ARCH_LIST__});
inline constexpr bool has_warpgroups = has_large_chunks;  // Hopper alone has warpgroup.cuh
#else
inline constexpr bool has_large_chunks = true;
inline constexpr bool has_warpgroups = false;
#endif

// One matrix as a block sees it.
struct ProductPart {
  const void* words = nullptr;
  const void* svh = nullptr;
  const void* bias = nullptr;
  std::int32_t first = 0;  // among the rotated rows
  std::int32_t rows = 0;
  std::int32_t row = 0;                      // the first one's number among those of its member
  const std::int32_t* use_of_row = nullptr;  // where the rows are uses: which, in shared memory
  std::int32_t member = 0;                   // of a set or pair
};

cudaError_t launch_product_k1(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k2(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k3(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k4(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k5(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k6(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k7(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);
cudaError_t launch_product_k8(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job);

}  // namespace tandem::gpu::cuda
