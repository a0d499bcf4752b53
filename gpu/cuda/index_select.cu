// Exact choice of the best k of n scores: higher score first, then the lower index; never -infinity or NaN.
//
// Shapes   n up to 1 M scores a row, k 512 of entries or 2048 of blocks; one block of threads a row.
// Work     up to 4096 scores: the k-th largest key is found byte by byte with a histogram of 256 counts (4 reads of the
//          scores); a last read writes the chosen indices in ascending order, ties from the left. More are made a list
//          of that size first (index_shortlist.cuh).
// Order    integer counts only, so the result is a function of the scores alone.
// Bytes    4 n, and 32 K of a sample; 5 * 4 n where no list could be made.
// Limit    one SM's bandwidth, since a row has one block; few long rows have a cluster (index_select_wide.cu).
// Plain    gpu/cpu/top_k.cpp; the test is equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_score.cuh"
#include "gpu/cuda/index_shortlist.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace selection;

__global__ void __launch_bounds__(threads, 2) select_kernel(IndexWork work) {
  begin_dependent();
  __shared__ Shared shared;
  __shared__ Shortlist list;
  const IndexSource row = work.rows[blockIdx.x];
  const int taken = choose_best(row.scores, row.visible, work.topk, shared, list,
                                [&](int position, int index) { row.selected[position] = index; });
  store_rest(work, row, taken);
}

__global__ void __launch_bounds__(threads, 2) publish_kernel(IndexWork work) {
  begin_dependent();
  __shared__ Shared shared;
  __shared__ Shortlist list;
  const IndexSource row = work.rows[blockIdx.x];
  if (row.published == nullptr) return;
  const int blocks = (row.visible + work.block_size - 1) / work.block_size;
  for (int word = threadIdx.x; word < (blocks + 63) / 64; word += threads) row.published[word] = 0;
  const int most = row.takes_all ? blocks : work.candidate_blocks;
  choose_best(row.block_scores, blocks, most, shared, list, [&](int, int block) {
    atomicOr(reinterpret_cast<unsigned long long*>(row.published + block / 64), 1ULL << (block % 64));
  });
}

}  // namespace

cudaError_t select_entries(cudaStream_t stream, const IndexWork& work) {
  if (work.listed_most > 0) return select_candidates(stream, work);
  constexpr std::int64_t wide_rows_most = 64;  // more of them fill the device with a block each
  if (work.visible_most >= wide_select_least && work.row_count <= wide_rows_most) return select_wide(stream, work);
  const auto rows = static_cast<unsigned>(work.row_count);
  return launch_dependent(stream, {dim3(rows), threads, 1, 0}, select_kernel, work);
}

cudaError_t publish_blocks(cudaStream_t stream, const IndexWork& work) {
  if (const cudaError_t status = score_blocks(stream, work); status != cudaSuccess) return status;
  const auto rows = static_cast<unsigned>(work.row_count);
  return launch_dependent(stream, {dim3(rows), threads, 1, 0}, publish_kernel, work);
}

}  // namespace tandem::gpu::cuda
