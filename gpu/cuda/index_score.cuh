// Scores of index keys, see index_score.cu.
#pragma once

#include "gpu/cuda/index_kernels.hpp"

namespace tandem::gpu::cuda {

// scores[j] of every row; entries that are no candidates get -infinity, rows that take all get 0 for the others.
cudaError_t score_entries(cudaStream_t stream, const IndexWork& work);

// block_scores of publishing rows: the maximum of each block, +infinity for the newest one and for rows that take all.
cudaError_t score_blocks(cudaStream_t stream, const IndexWork& work);

}  // namespace tandem::gpu::cuda
