// I(p, j) = sum_h w_h relu(iq_h . ik_j) for the visible entries j of every row, FP32.
//
// Shapes   iq [T, heads * dim], heads 32, dim 128; weights [T, heads]; keys are X4 records, up to 1 M a row.
// Work     a block is one row and 128 keys, a thread owns one key: in registers if keys are X4 records of 128
//          dimensions (many rows of those: index_score_tile.cu), else the block decodes them to shared memory,
//          transposed.
// Order    each dot product is one chain over the dimensions, the sum over heads ascends: the CPU backend's bits.
// Bytes    68 a key and row in, 4 out.
// Limit    2 * heads * dim FP32 operations a key and row: 8 K, so some 6 G keys/s.
// Plain    gpu/cpu/simd/index.cpp; the test is bit equality.
#include <math_constants.h>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/index_score.cuh"
#include "gpu/cuda/records.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int threads = 128;  // keys of a block
constexpr int head_step = 4;  // heads whose dot products run side by side

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

// Adds `count` heads from `head` on to the score of this thread's key.
__device__ float add_heads(const float* keys, const float* q, const float* weights, int count, int dim, float score) {
  float dots[head_step] = {};
  for (int i = 0; i < dim; ++i) {
    const float key = keys[i * threads + threadIdx.x];
#pragma unroll
    for (int h = 0; h < head_step; ++h) {
      if (h < count) dots[h] = fmaf(q[h * dim + i], key, dots[h]);
    }
  }
#pragma unroll
  for (int h = 0; h < head_step; ++h) {
    if (h < count) score = fmaf(weights[h], dots[h] > 0.0F ? dots[h] : 0.0F, score);
  }
  return score;
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
  if (row.takes_all) {
    if (entry < row.visible) row.scores[entry] = is_wanted ? 0.0F : -CUDART_INF_F;
    return;
  }
  float score = 0;
  if (__syncthreads_or(is_wanted)) {
    const int count = static_cast<int>(row.visible - first < threads ? row.visible - first : threads);
    float* q = keys + work.head_dim * threads;
    const float* queries = row_of(work.iq, row.row);
    for (int i = threadIdx.x; i < work.heads * work.head_dim; i += threads) q[i] = queries[i];
    load_keys<format>(row, first, count, work.head_dim, keys);
    __syncthreads();
    const float* weights = row_of(work.weights, row.row);
    for (int h = 0; h < work.heads; h += head_step) {
      const int heads = work.heads - h < head_step ? work.heads - h : head_step;
      score = add_heads(keys, q + h * work.head_dim, weights + h, heads, work.head_dim, score);
    }
  }
  if (entry < row.visible) row.scores[entry] = is_wanted ? score : -CUDART_INF_F;
}

// ---- the released shape: a thread keeps the 128 dimensions of its X4 key in registers ----

constexpr int key_dim = 128;

__device__ void read_key(const IndexSource& row, std::int64_t entry, float (&key)[key_dim]) {
  const std::int64_t place = std::int64_t{row.pages[entry / page_entries]} * page_entries + entry % page_entries;
  const auto* words =
      reinterpret_cast<const std::uint32_t*>(row.pool + place * bytes_of_record(RecordFormat::x4, key_dim));
  const std::uint32_t scales = words[key_dim / 8];
#pragma unroll
  for (int w = 0; w < key_dim / 8; ++w) {
    const std::uint32_t codes = words[w];
    const float scale = e8m0_to_float(static_cast<std::uint8_t>(scales >> (w / 4 * 8)));
#pragma unroll
    for (int i = 0; i < 8; ++i) key[8 * w + i] = decode_e2m1(codes >> (4 * i)) * scale;
  }
}

// The score of a key over all heads, four dot products side by side.
__device__ float score_of(const float (&key)[key_dim], const float* queries, const float* weights, int heads) {
  float score = 0;
  for (int h = 0; h < heads; h += head_step) {
    float dots[head_step] = {};
#pragma unroll
    for (int i = 0; i < key_dim; i += 4) {
#pragma unroll
      for (int k = 0; k < head_step; ++k) {
        const float4 q = *reinterpret_cast<const float4*>(queries + (h + k) * key_dim + i);
        dots[k] = fmaf(q.x, key[i], dots[k]);
        dots[k] = fmaf(q.y, key[i + 1], dots[k]);
        dots[k] = fmaf(q.z, key[i + 2], dots[k]);
        dots[k] = fmaf(q.w, key[i + 3], dots[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < head_step; ++k) score = fmaf(weights[h + k], dots[k] > 0.0F ? dots[k] : 0.0F, score);
  }
  return score;
}

__global__ void __launch_bounds__(threads) score_wide_kernel(IndexWork work) {
  begin_dependent();
  extern __shared__ __align__(16) float queries[];  // [heads, key_dim], then weights [heads]
  const IndexSource row = work.rows[blockIdx.y];
  const std::int64_t entry = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (blockIdx.x * std::int64_t{threads} >= row.visible) return;
  const bool is_wanted = entry < row.visible && is_candidate(row, entry, work.block_size);
  if (row.takes_all) {
    if (entry < row.visible) row.scores[entry] = is_wanted ? 0.0F : -CUDART_INF_F;
    return;
  }
  float score = -CUDART_INF_F;
  if (__syncthreads_or(is_wanted)) {
    float* weights = queries + work.heads * key_dim;
    const auto* from = reinterpret_cast<const float4*>(row_of(work.iq, row.row));
    for (int i = threadIdx.x; i < work.heads * key_dim / 4; i += threads)
      reinterpret_cast<float4*>(queries)[i] = from[i];
    for (int i = threadIdx.x; i < work.heads; i += threads) weights[i] = row_of(work.weights, row.row)[i];
    __syncthreads();
    if (is_wanted) {
      float key[key_dim];
      read_key(row, entry, key);
      score = score_of(key, queries, weights, work.heads);
    }
  }
  if (entry < row.visible) row.scores[entry] = score;
}

bool is_wide(const IndexWork& work) {
  return work.format == RecordFormat::x4 && work.head_dim == key_dim && work.heads % head_step == 0 &&
         reinterpret_cast<std::uintptr_t>(work.iq.data) % 16 == 0 && work.iq.stride % 4 == 0;
}

cudaError_t launch_wide(cudaStream_t stream, const IndexWork& work) {
  const std::size_t bytes = static_cast<std::size_t>(work.heads) * (key_dim + 1) * sizeof(float);
  const cudaError_t status =
      cudaFuncSetAttribute(score_wide_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>((work.visible_most + threads - 1) / threads),
                  static_cast<unsigned>(work.row_count));
  return launch_dependent(stream, {grid, threads, 1, bytes}, score_wide_kernel, work);
}

__global__ void block_kernel(IndexWork work) {
  begin_dependent();
  const IndexSource row = work.rows[blockIdx.y];
  const std::int64_t block = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  const std::int64_t blocks = (row.visible + work.block_size - 1) / work.block_size;
  if (row.published == nullptr || block >= blocks) return;
  float most = -CUDART_INF_F;
  for (int i = 0; i < work.block_size; ++i) {
    const std::int64_t entry = block * work.block_size + i;
    if (entry < row.visible) most = row.scores[entry] > most ? row.scores[entry] : most;
  }
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

}  // namespace

cudaError_t score_entries(cudaStream_t stream, const IndexWork& work) {
  if (are_tiles(work)) return score_tiles(stream, work);
  if (is_wide(work)) return launch_wide(stream, work);
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
