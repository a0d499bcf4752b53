// Exact choice of the best k of n scores: higher score first, then the lower index; never -infinity or NaN.
//
// Shapes   n up to 1 M scores a row, k 512 of entries or 2048 of blocks; one block of threads a row.
// Work     the k-th largest key is found byte by byte with a histogram of 256 counts (4 reads of the scores); a last
// read
//          writes the chosen indices in ascending order, ties from the left.
// Order    integer counts only, so the result is a function of the scores alone.
// Bytes    5 * 4 n.
// Limit    one SM's bandwidth, since a row has one block; long rows have a cluster (index_select_wide.cu).
// Plain    gpu/cpu/top_k.cpp; the test is equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_score.cuh"
#include "gpu/cuda/index_select.cuh"

namespace tandem::gpu::cuda {
namespace {

using namespace selection;

// Finds the k-th largest key. With fewer than k keys everything is chosen.
__device__ Choice find_threshold(const float* scores, std::int64_t n, int k, Shared& shared) {
  if (threadIdx.x == 0) shared.remaining = k;
  unsigned prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_bytes(scores, n, prefix, shift, shared);
    if (threadIdx.x < warp_size) find_bin(shared.counts, prefix, shift, shared);
    __syncthreads();
    if (shared.remaining == 0) return {0, 0};
    prefix = shared.choice.threshold;
  }
  return {prefix, shared.remaining};
}

__global__ void __launch_bounds__(threads) select_kernel(IndexWork work) {
  begin_dependent();
  __shared__ Shared shared;
  const IndexSource row = work.rows[blockIdx.x];
  const Choice choice = find_threshold(row.scores, row.visible, work.topk, shared);
  const int taken = take_chosen(row.scores, row.visible, choice, {}, shared,
                                [&](int position, int index) { row.selected[position] = index; });
  for (int i = taken + static_cast<int>(threadIdx.x); i < work.topk; i += threads) row.selected[i] = -1;
  if (threadIdx.x == 0 && row.selected_count != nullptr) *row.selected_count = taken;
}

__global__ void __launch_bounds__(threads) publish_kernel(IndexWork work) {
  begin_dependent();
  __shared__ Shared shared;
  const IndexSource row = work.rows[blockIdx.x];
  if (row.published == nullptr) return;
  const int blocks = (row.visible + work.block_size - 1) / work.block_size;
  for (int word = threadIdx.x; word < (blocks + 63) / 64; word += threads) row.published[word] = 0;
  const int most = row.takes_all ? blocks : work.candidate_blocks;
  const Choice choice = find_threshold(row.block_scores, blocks, most, shared);
  take_chosen(row.block_scores, blocks, choice, {}, shared, [&](int, int block) {
    atomicOr(reinterpret_cast<unsigned long long*>(row.published + block / 64), 1ULL << (block % 64));
  });
}

}  // namespace

cudaError_t select_entries(cudaStream_t stream, const IndexWork& work) {
  if (work.visible_most >= wide_select_least) return select_wide(stream, work);
  const auto rows = static_cast<unsigned>(work.row_count);
  return launch_dependent(stream, {dim3(rows), threads, 1, 0}, select_kernel, work);
}

cudaError_t publish_blocks(cudaStream_t stream, const IndexWork& work) {
  if (const cudaError_t status = score_blocks(stream, work); status != cudaSuccess) return status;
  const auto rows = static_cast<unsigned>(work.row_count);
  return launch_dependent(stream, {dim3(rows), threads, 1, 0}, publish_kernel, work);
}

}  // namespace tandem::gpu::cuda
