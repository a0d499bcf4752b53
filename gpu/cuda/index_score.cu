// I(p, j) = sum_h w_h relu(iq_h . ik_j) for the visible entries j of every row, FP32.
//
// Shapes   iq [T, heads * dim], heads 32, dim 128; weights [T, heads]; keys up to 1 M a row.
// Work     X4 records of 128 dimensions: matrix instructions (index_score_tile.cu, index_score_row.cu,
//          index_candidates.cu). Any other records, which small models and FP32 caches have, here: a block is one row
//          and 128 keys, decoded to shared memory and transposed, and a thread has one key.
// Order    gpu/index_order.hpp: the CPU backend's bits.
// Bytes    a record for every key and row in, 4 out.
// Limit    2 * heads * dim FP32 operations a key and row.
// Plain    gpu/cpu/simd/index.cpp; the test is bit equality.
#include <math_constants.h>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_score.cuh"
#include "gpu/cuda/records.cuh"
#include "gpu/index_order.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int threads = 128;  // keys of a block

// Decodes `count` keys from entry `first` on into keys [dim, threads].
template <RecordFormat format>
__device__ void load_keys(const IndexSource& row, std::int64_t first, int count, int dim, float* keys) {
  for (int at = threadIdx.x; at < count * dim; at += threads) {
    const int t = at / dim, i = at % dim;
    const std::int64_t entry = first + t;
    const std::int64_t place = std::int64_t{row.pages[entry / page_entries]} * page_entries + entry % page_entries;
    keys[i * threads + t] = record_value<format>(row.pool + place * bytes_of_record(format, dim), dim, i);
  }
}

// The dot products of this thread's key with `count` heads, one a lane.
__device__ void add_heads(const float* keys, const float* q, int count, int dim, float (&dots)[index_lanes]) {
  for (int first = 0; first < dim; first += index_dims) {
    const int last = first + index_dims < dim ? first + index_dims : dim;
    float part[index_lanes] = {};
    for (int i = first; i < last; ++i) {
      const float key = keys[i * threads + threadIdx.x];
#pragma unroll
      for (int h = 0; h < index_lanes; ++h) {
        if (h < count) part[h] = fmaf(q[h * dim + i], key, part[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < index_lanes; ++h) dots[h] += part[h];
  }
}

__device__ float score_of(const IndexWork& work, const float* keys, const float* q, const float* weights) {
  float sums[index_lanes] = {};
  for (int head = 0; head < work.heads; head += index_lanes) {
    const int count = work.heads - head < index_lanes ? work.heads - head : index_lanes;
    float dots[index_lanes] = {};
    add_heads(keys, q + head * work.head_dim, count, work.head_dim, dots);
#pragma unroll
    for (int l = 0; l < index_lanes; ++l) {
      if (l < count) sums[l] = fmaf(weights[head + l], fmaxf(dots[l], 0.0F), sums[l]);
    }
  }
#pragma unroll
  for (int step = index_lanes / 2; step > 0; step /= 2) {
#pragma unroll
    for (int l = 0; l < step; ++l) sums[l] += sums[l + step];
  }
  return sums[0];
}

template <RecordFormat format>
__global__ void __launch_bounds__(threads) score_kernel(IndexWork work) {
  begin_dependent();
  extern __shared__ float keys[];  // [dim, threads], then the row's queries [heads, dim]
  const IndexSource row = work.rows[blockIdx.y];
  const std::int64_t first = blockIdx.x * std::int64_t{threads};
  if (first >= row.visible) return;
  const std::int64_t entry = first + threadIdx.x;
  const bool is_wanted = entry < row.visible && is_candidate(row, entry, work.block_size);
  float score = 0;
  if (__syncthreads_or(is_wanted && !row.takes_all)) {
    const int count = static_cast<int>(row.visible - first < threads ? row.visible - first : threads);
    float* q = keys + work.head_dim * threads;
    const float* queries = row_of(work.iq, row.row);
    for (int i = threadIdx.x; i < work.heads * work.head_dim; i += threads) q[i] = queries[i];
    load_keys<format>(row, first, count, work.head_dim, keys);
    __syncthreads();
    score = score_of(work, keys, q, row_of(work.weights, row.row));
  }
  store_score(work, row, entry, score);
}

// The greatest of the scores of a block; no NaN is one. Blocks of eight are read by fours: their lists begin on 16
// bytes.
__device__ float greatest_score(const IndexSource& row, std::int64_t first, int block_size) {
  float most = -CUDART_INF_F;
  if (block_size == 8 && first + 8 <= row.visible) {
    const auto* fours = reinterpret_cast<const float4*>(row.scores + first);
    const float4 low = fours[0], high = fours[1];
    for (const float score : {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}) {
      most = score > most ? score : most;
    }
    return most;
  }
  for (std::int64_t entry = first; entry < first + block_size && entry < row.visible; ++entry) {
    most = row.scores[entry] > most ? row.scores[entry] : most;
  }
  return most;
}

__global__ void block_kernel(IndexWork work) {
  begin_dependent();
  const IndexSource row = work.rows[blockIdx.y];
  const std::int64_t block = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  const std::int64_t blocks = (row.visible + work.block_size - 1) / work.block_size;
  if (row.published == nullptr || block >= blocks) return;
  const float most = greatest_score(row, block * work.block_size, work.block_size);
  row.block_scores[block] = block == blocks - 1 || row.takes_all ? CUDART_INF_F : most;
}

template <RecordFormat format>
cudaError_t launch(cudaStream_t stream, const IndexWork& work) {
  const std::size_t bytes = static_cast<std::size_t>(work.head_dim) * (threads + work.heads) * sizeof(float);
  const cudaError_t status =
      cudaFuncSetAttribute(score_kernel<format>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>((work.visible_most + threads - 1) / threads),
                  static_cast<unsigned>(work.row_count));
  return launch_dependent(stream, {grid, threads, 1, bytes}, score_kernel<format>, work);
}

// Whether the work has the shape of matrix instructions, and whether enough rows share their keys.
bool has_matrices(const IndexWork& work) {
  return work.format == RecordFormat::x4 && work.head_dim == 128 && work.heads <= 32 &&
         reinterpret_cast<std::uintptr_t>(work.iq.data) % 16 == 0 && work.iq.stride % 4 == 0;
}
bool are_tiles(const IndexWork& work) {
  constexpr std::int64_t rows_least = 8;
  return work.row_count >= rows_least && !work.narrows;
}

}  // namespace

bool may_list_candidates(const IndexWork& work, bool publishes) {
  return work.narrows && !publishes && work.block_size == listed_block_entries && has_matrices(work);
}

cudaError_t score_entries(cudaStream_t stream, const IndexWork& work) {
  if (work.listed_most > 0) return score_candidates(stream, work);
  if (has_matrices(work)) return are_tiles(work) ? score_tiles(stream, work) : score_rows(stream, work);
  switch (work.format) {
    case RecordFormat::f32:
      return launch<RecordFormat::f32>(stream, work);
    case RecordFormat::x4:
      return launch<RecordFormat::x4>(stream, work);
    case RecordFormat::w8:
    case RecordFormat::n4:
      break;
  }
  return cudaErrorNotSupported;
}

cudaError_t score_blocks(cudaStream_t stream, const IndexWork& work) {
  const std::int64_t blocks = (work.visible_most + work.block_size - 1) / work.block_size;
  const dim3 grid(static_cast<unsigned>((blocks + threads - 1) / threads), static_cast<unsigned>(work.row_count));
  return launch_dependent(stream, {grid, threads, 1, 0}, block_kernel, work);
}

}  // namespace tandem::gpu::cuda
