// From one site to the next: the parts of a sublayer's result added up, the streams expanded, and the next sublayer's
// input made from them while a block holds the row.
//
//   y = sum of the parts; S_k = post_k y + sum_j comb[j][k] S_j; u = sum_j pre_j S_j; input = rmsnorm(u)
//
// Shapes   parts [blocks * T, D], S [T, C * D], D 5120, C 4. With input a cluster of 8 blocks is a row, or of many rows
//          one block; alone a block is 256 columns of one.
// Order    that of sum_blocks, mhc_expand, mhc_collapse and rmsnorm one after the other: their bits.
// Bytes    parts, S in; S, y and the input out: 4 D (blocks + 2 C + 2) a row.
// Limit    one row: the latency of a load, a cluster's barrier and the chain of D / 16 multiply-adds of the norm, which
//          every block of the cluster repeats; many rows: memory bandwidth.
// Plain    Ops::end_site; the test is bit equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/mhc_kernels.hpp"
#include "gpu/cuda/norm_row.cuh"
#include "gpu/cuda/row_kernels.hpp"
#include "gpu/cuda/site_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int site_threads = 640;  // two times four columns a thread at 5120
constexpr int site_streams = 4;
constexpr int spread_blocks = 8, spread_threads_most = 512;  // of a row's cluster; threads of a block of it
constexpr std::int64_t spread_rows_most = 32;                // more rows fill a device with a block each

__device__ float add_parts(const SiteCall& call, std::int64_t row, std::int64_t i) {
  const std::int64_t count = call.parts.rows / call.sum.rows;
  float total = row_of(call.parts, row)[i];
  for (std::int64_t b = 1; b < count; ++b) total += row_of(call.parts, b * call.sum.rows + row)[i];
  return rounded(total, call.round);
}

__global__ void end_site_kernel(SiteCall call) {
  begin_dependent();
  const int mult = static_cast<int>(call.post.cols);
  const std::int64_t width = call.sum.cols, row = blockIdx.x;
  float* s = row_of(call.streams, row);
  const float *post = row_of(call.post, row), *comb = row_of(call.comb, row);
  for_each_column(width, [&](std::int64_t i) {
    const float y = add_parts(call, row, i);
    row_of(call.sum, row)[i] = y;
    float old[mhc_streams_max];
#pragma unroll
    for (int j = 0; j < mhc_streams_max; ++j) old[j] = j < mult ? s[j * width + i] : 0.0F;
    for (int k = 0; k < mult; ++k) {
      float sum = post[k] * y;
#pragma unroll
      for (int j = 0; j < mhc_streams_max; ++j) {
        if (j < mult) sum = fmaf(comb[j * mult + k], old[j], sum);
      }
      s[k * width + i] = rounded(sum, call.round);
    }
  });
}

// What turns four streams into the next ones, and those into the input.
struct SiteMix {
  float post[site_streams], comb[site_streams * site_streams], pre[site_streams];
};

__device__ SiteMix load_mix(const SiteCall& call, std::int64_t row) {
  SiteMix mix;
  const auto copy = [&](const Tensor& from, float* to, int count) {
    for (int j = 0; j < count / 4; ++j) {
      const float4 four = reinterpret_cast<const float4*>(row_of(from, row))[j];
      to[4 * j] = four.x, to[4 * j + 1] = four.y, to[4 * j + 2] = four.z, to[4 * j + 3] = four.w;
    }
  };
  copy(call.post, mix.post, site_streams);
  copy(call.pre, mix.pre, site_streams);
  copy(call.comb, mix.comb, site_streams * site_streams);
  return mix;
}

// One column: replaces its streams by the next ones and returns u.
__device__ float expand_column(const SiteMix& mix, float y, bool round, float (&s)[site_streams]) {
  float next[site_streams];
#pragma unroll
  for (int k = 0; k < site_streams; ++k) {
    float sum = mix.post[k] * y;
#pragma unroll
    for (int j = 0; j < site_streams; ++j) sum = fmaf(mix.comb[j * site_streams + k], s[j], sum);
    next[k] = rounded(sum, round);
  }
  float u = mix.pre[0] * next[0];
#pragma unroll
  for (int j = 1; j < site_streams; ++j) u = fmaf(mix.pre[j], next[j], u);
#pragma unroll
  for (int j = 0; j < site_streams; ++j) s[j] = next[j];
  return rounded(u, round);
}

__device__ float4 added(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// Expands four neighbouring columns and returns their u; all that they need is loaded before the first is used, because
// a block has no other work to hide the loads behind.
__device__ float4 expand_four(const SiteCall& call, const SiteMix& mix, std::int64_t row, std::int64_t i) {
  const std::int64_t width = call.sum.cols, count = call.parts.rows / call.sum.rows;
  float* streams = row_of(call.streams, row) + i;
  float4 s[site_streams];
#pragma unroll
  for (int j = 0; j < site_streams; ++j) s[j] = *reinterpret_cast<const float4*>(streams + j * width);
  float4 y = *reinterpret_cast<const float4*>(row_of(call.parts, row) + i);
  for (std::int64_t b = 1; b < count; ++b) {
    y = added(y, *reinterpret_cast<const float4*>(row_of(call.parts, b * call.sum.rows + row) + i));
  }
  y = {rounded(y.x, call.round), rounded(y.y, call.round), rounded(y.z, call.round), rounded(y.w, call.round)};
  *reinterpret_cast<float4*>(row_of(call.sum, row) + i) = y;
  float a[site_streams] = {s[0].x, s[1].x, s[2].x, s[3].x}, b[site_streams] = {s[0].y, s[1].y, s[2].y, s[3].y};
  float c[site_streams] = {s[0].z, s[1].z, s[2].z, s[3].z}, d[site_streams] = {s[0].w, s[1].w, s[2].w, s[3].w};
  float4 made;
  made.x = expand_column(mix, y.x, call.round, a);
  made.y = expand_column(mix, y.y, call.round, b);
  made.z = expand_column(mix, y.z, call.round, c);
  made.w = expand_column(mix, y.w, call.round, d);
#pragma unroll
  for (int j = 0; j < site_streams; ++j) {
    *reinterpret_cast<float4*>(streams + j * width) = float4{a[j], b[j], c[j], d[j]};
  }
  return made;
}

__global__ void __launch_bounds__(site_threads) site_input_kernel(SiteCall call) {
  begin_dependent();
  extern __shared__ __align__(16) float u[];
  const std::int64_t cols = call.sum.cols;
  const SiteMix mix = load_mix(call, blockIdx.x);
  for (std::int64_t i = threadIdx.x * std::int64_t{4}; i < cols; i += 4 * site_threads) {
    *reinterpret_cast<float4*>(u + i) = expand_four(call, mix, blockIdx.x, i);
  }
  __syncthreads();
  norm_row(u, cols, {call.norm, call.eps, call.round}, site_threads, row_of(call.input, blockIdx.x));
}

// The same by a cluster: a thread has four columns, every block gets the whole u and makes the factor of the norm.
__global__ void __launch_bounds__(spread_threads_most) spread_site_kernel(SiteCall call) {
  extern __shared__ __align__(16) float u[];
  __shared__ float factor;
  const std::int64_t cols = call.sum.cols, row = blockIdx.x / spread_blocks, width = cols / spread_blocks;
  const std::int64_t own = threadIdx.x * std::int64_t{4}, column = blockIdx.x % spread_blocks * width + own;
  const bool has_columns = own < width;
  cluster_arrive();
  let_next_kernel_start();
  float4 weight = {};
  if (has_columns) weight = *reinterpret_cast<const float4*>(call.norm + column);
  wait_for_earlier_kernels();
  float4 four = {};
  if (has_columns) four = expand_four(call, load_mix(call, row), row, column);
  cluster_wait();  // all blocks run, so their memory may be written
  for (int rank = 0; has_columns && rank < spread_blocks; ++rank) write_to_rank(u + column, rank, four);
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x < warp_size) {
    const float made = norm_factor(u, cols, call.eps);
    if (threadIdx.x == 0) factor = made;
  }
  __syncthreads();
  if (!has_columns) return;
  const auto normed = [&](float x, float w) { return rounded(x * factor * w, call.round); };
  *reinterpret_cast<float4*>(row_of(call.input, row) + column) = {normed(four.x, weight.x), normed(four.y, weight.y),
                                                                  normed(four.z, weight.z), normed(four.w, weight.w)};
}

bool has_aligned_rows(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0;
}

bool is_spread(const SiteCall& call) {
  return call.sum.rows <= spread_rows_most && call.sum.cols % (4 * spread_blocks) == 0 &&
         call.sum.cols <= 4 * spread_blocks * spread_threads_most && has_aligned_rows(call.input) &&
         reinterpret_cast<std::uintptr_t>(call.norm) % 16 == 0;
}

cudaError_t spread_site(cudaStream_t stream, const SiteCall& call) {
  const auto threads = static_cast<int>((call.sum.cols / (4 * spread_blocks) + warp_size - 1) / warp_size * warp_size);
  const auto bytes = static_cast<std::size_t>(call.sum.cols) * sizeof(float);
  return launch_dependent(stream,
                          {dim3(static_cast<unsigned>(call.sum.rows * spread_blocks)), threads, spread_blocks, bytes},
                          spread_site_kernel, call);
}

}  // namespace

bool is_joint_site(const SiteCall& call) {
  return call.pre.cols == site_streams && call.post.cols == site_streams && call.sum.cols % 4 == 0 &&
         call.sum.cols <= near_row_most && has_aligned_rows(call.streams) && has_aligned_rows(call.parts) &&
         has_aligned_rows(call.sum) && has_aligned_rows(call.post) && has_aligned_rows(call.comb) &&
         has_aligned_rows(call.pre);
}

cudaError_t end_site(cudaStream_t stream, const SiteCall& call) {
  if (call.post.cols > mhc_streams_max) return cudaErrorNotSupported;
  return launch_dependent(stream, {row_grid(call.sum.rows, call.sum.cols), row_threads, 1, 0}, end_site_kernel, call);
}

cudaError_t end_site_with_input(cudaStream_t stream, const SiteCall& call) {
  if (is_many_sites(call)) return end_many_sites(stream, call);
  if (is_spread(call)) return spread_site(stream, call);
  const auto bytes = static_cast<std::size_t>(call.sum.cols) * sizeof(float);
  return launch_dependent(stream, {dim3(static_cast<unsigned>(call.sum.rows)), site_threads, 1, bytes},
                          site_input_kernel, call);
}

}  // namespace tandem::gpu::cuda
