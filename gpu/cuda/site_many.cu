// The end of a site and the input of the next one for many rows: what site_kernels.cu computes, where memory is the
// limit and a multiprocessor must have several rows in work.
//
// Shapes   parts [blocks * T, D], S [T, 4 D], D up to what shared memory holds. A block is a row.
// Work     a thread holds four columns of four streams and nothing else: the coefficients lie in shared memory and a
//          new stream is written as soon as it is made, so that four blocks fit and one's loads hide another's norm.
// Order    that of site_kernels.cu: the same bits.
// Bytes    4 D (blocks + 2 * 4 + 2) a row: 461 MB for 2048 rows of 5120.
// Limit    memory bandwidth.
// Plain    Ops::end_site; the test is bit equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/norm_row.cuh"
#include "gpu/cuda/site_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int many_threads = 256, many_blocks = 4;  // five times four columns a thread at 5120
constexpr int many_streams = 4;

// What makes stream k, and its share of the input.
struct StreamMix {
  float4 comb;  // of the four old streams
  float post, pre;
};

__device__ float4 scaled(float factor, float4 a) {
  return {factor * a.x, factor * a.y, factor * a.z, factor * a.w};
}
__device__ float4 scaled_onto(float factor, float4 a, float4 sum) {
  return {fmaf(factor, a.x, sum.x), fmaf(factor, a.y, sum.y), fmaf(factor, a.z, sum.z), fmaf(factor, a.w, sum.w)};
}
__device__ float4 four_rounded(float4 a, bool round) {
  return {rounded(a.x, round), rounded(a.y, round), rounded(a.z, round), rounded(a.w, round)};
}

// y of four columns: the sum of the parts.
__device__ float4 sum_parts(const SiteCall& call, std::int64_t row, std::int64_t i) {
  const std::int64_t count = call.parts.rows / call.sum.rows;
  float4 y = *reinterpret_cast<const float4*>(row_of(call.parts, row) + i);
  for (std::int64_t b = 1; b < count; ++b) {
    const float4 part = *reinterpret_cast<const float4*>(row_of(call.parts, b * call.sum.rows + row) + i);
    y = {y.x + part.x, y.y + part.y, y.z + part.z, y.w + part.w};
  }
  return four_rounded(y, call.round);
}

__global__ void __launch_bounds__(many_threads, many_blocks) site_many_kernel(SiteCall call) {
  begin_dependent();
  extern __shared__ __align__(16) float u[];
  __shared__ StreamMix mix[many_streams];
  const std::int64_t row = blockIdx.x, cols = call.sum.cols;
  if (threadIdx.x < many_streams) {
    const float* comb = row_of(call.comb, row) + threadIdx.x;
    mix[threadIdx.x] = {{comb[0], comb[many_streams], comb[2 * many_streams], comb[3 * many_streams]},
                        row_of(call.post, row)[threadIdx.x],
                        row_of(call.pre, row)[threadIdx.x]};
  }
  __syncthreads();
#pragma unroll 1
  for (std::int64_t i = threadIdx.x * std::int64_t{4}; i < cols; i += 4 * many_threads) {
    float* streams = row_of(call.streams, row) + i;
    float4 s[many_streams];
#pragma unroll
    for (int j = 0; j < many_streams; ++j) s[j] = *reinterpret_cast<const float4*>(streams + j * cols);
    const float4 y = sum_parts(call, row, i);
    *reinterpret_cast<float4*>(row_of(call.sum, row) + i) = y;
    float4 made{};
#pragma unroll
    for (int k = 0; k < many_streams; ++k) {
      const StreamMix own = mix[k];
      float4 next = scaled(own.post, y);
      next = scaled_onto(own.comb.x, s[0], next);
      next = scaled_onto(own.comb.y, s[1], next);
      next = scaled_onto(own.comb.z, s[2], next);
      next = four_rounded(scaled_onto(own.comb.w, s[3], next), call.round);
      *reinterpret_cast<float4*>(streams + k * cols) = next;
      made = k == 0 ? scaled(own.pre, next) : scaled_onto(own.pre, next, made);
    }
    *reinterpret_cast<float4*>(u + i) = four_rounded(made, call.round);
  }
  __syncthreads();
  norm_row(u, cols, {call.norm, call.eps, call.round}, many_threads, row_of(call.input, row));
}

}  // namespace

bool is_many_sites(const SiteCall& call) {
  constexpr std::int64_t rows_least = 192;  // fewer leave a multiprocessor with one row
  constexpr std::int64_t cols_most = 12000;
  static_assert(cols_most * sizeof(float) + sizeof(StreamMix) * many_streams + 16 <= 48 << 10);
  return call.sum.rows >= rows_least && call.sum.cols <= cols_most;
}

cudaError_t end_many_sites(cudaStream_t stream, const SiteCall& call) {
  const auto bytes = static_cast<std::size_t>(call.sum.cols) * sizeof(float);
  return launch_dependent(stream, {dim3(static_cast<unsigned>(call.sum.rows)), many_threads, 1, bytes},
                          site_many_kernel, call);
}

}  // namespace tandem::gpu::cuda
