// Scores of index keys, see index_score.cu.
#pragma once

#include "gpu/cuda/index_kernels.hpp"

namespace tandem::gpu::cuda {

// scores[j] of every row; entries that are no candidates get -infinity, rows that take all get 0 for the others.
cudaError_t score_entries(cudaStream_t stream, const IndexWork& work);

// The same for many rows of the released shape, see index_score_tile.cu, and whether the work is such.
bool are_tiles(const IndexWork& work);
cudaError_t score_tiles(cudaStream_t stream, const IndexWork& work);

// Whether the row may choose the entry.
__device__ inline bool is_candidate(const IndexSource& row, std::int64_t entry, int block_size) {
  if (row.candidates == nullptr) return true;
  const std::int64_t block = entry / block_size;
  return (row.candidates[block / 64] >> (block % 64) & 1U) != 0;
}

// block_scores of publishing rows: the maximum of each block, +infinity for the newest one and for rows that take all.
cudaError_t score_blocks(cudaStream_t stream, const IndexWork& work);

}  // namespace tandem::gpu::cuda
