// Scores of index keys, see index_score.cu.
#pragma once

#include <math_constants.h>

#include "gpu/cuda/index_kernels.hpp"

namespace tandem::gpu::cuda {

// score_entries by matrix instructions, for X4 records of 128 dimensions: rows that share keys and see all of them
// (index_score_tile.cu), and any rows (index_score_row.cu).
cudaError_t score_tiles(cudaStream_t stream, const IndexWork& work);
cudaError_t score_rows(cudaStream_t stream, const IndexWork& work);

// Whether the row may choose the entry.
__device__ inline bool is_candidate(const IndexSource& row, std::int64_t entry, int block_size) {
  if (row.candidates == nullptr) return true;
  const std::int64_t block = entry / block_size;
  return (row.candidates[block / 64] >> (block % 64) & 1U) != 0;
}

// Keeps the score of an entry, if the row sees it.
__device__ inline void store_score(const IndexWork& work, const IndexSource& row, std::int64_t entry, float score) {
  if (entry >= row.visible) return;
  if (row.takes_all) score = 0;
  row.scores[entry] = is_candidate(row, entry, work.block_size) ? score : -CUDART_INF_F;
}

// block_scores of publishing rows: the maximum of each block, +infinity for the newest one and for rows that take all.
cudaError_t score_blocks(cudaStream_t stream, const IndexWork& work);

}  // namespace tandem::gpu::cuda
