// Manifold hyper-connections.
//
//   mix       m = raw * rsqrt(mean(S^2) + eps); pre = sigmoid + eps, post = 2 sigmoid, comb = Sinkhorn(softmax)
//   collapse  u = sum_j pre_j S_j
//   expand    S_k = post_k y + sum_j comb[j][k] S_j
//
// Shapes   S [T, C * D], C <= 5 streams; the raw products [T, (2 + C) C] and the square sums come from
//          chain_product.cu.
// Order    mean(S^2) in 16 lanes; sums over streams ascending with fused multiply-adds; Sinkhorn sums ascending.
// Bytes    collapse reads S, expand reads and writes S.
// Limit    mix: the 2 * 20 dependent normalisations, about 3 us; the others: memory bandwidth.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/mhc_kernels.hpp"
#include "gpu/cuda/mix_split.cuh"

namespace tandem::gpu::cuda {
namespace {

__global__ void squares_kernel(Tensor x, Tensor squares) {
  begin_dependent();
  const float* row = row_of(x, blockIdx.x);
  const float sum = dot_in_lanes(x.cols, [&](int i) { return float2{row[i], row[i]}; });
  if (threadIdx.x == 0) row_of(squares, blockIdx.x)[0] = sum;
}

// One warp a row; `fixed` is the number of streams, 0 if it is not known here.
template <int fixed>
__global__ void split_mix_kernel(MixCall call) {
  begin_dependent();
  split_row<fixed>(call, blockIdx.x);
}

__global__ void collapse_kernel(Tensor streams, Tensor pre, bool round, Tensor out) {
  begin_dependent();
  const float *s = row_of(streams, blockIdx.x), *mix = row_of(pre, blockIdx.x);
  float* u = row_of(out, blockIdx.x);
  for_each_column(out.cols, [&](std::int64_t i) {
    float sum = mix[0] * s[i];
#pragma unroll 4
    for (std::int64_t j = 1; j < pre.cols; ++j) sum = fmaf(mix[j], s[j * out.cols + i], sum);
    u[i] = rounded(sum, round);
  });
}

__global__ void expand_kernel(ExpandCall call) {
  begin_dependent();
  const int mult = static_cast<int>(call.post.cols);
  const std::int64_t width = call.y.cols;
  float* s = row_of(call.streams, blockIdx.x);
  const float *y = row_of(call.y, blockIdx.x), *post = row_of(call.post, blockIdx.x);
  const float* comb = row_of(call.comb, blockIdx.x);
  for_each_column(width, [&](std::int64_t i) {
    float old[mhc_streams_max];
#pragma unroll
    for (int j = 0; j < mhc_streams_max; ++j) old[j] = j < mult ? s[j * width + i] : 0.0F;
    for (int k = 0; k < mult; ++k) {
      float sum = post[k] * y[i];
#pragma unroll
      for (int j = 0; j < mhc_streams_max; ++j) {
        if (j < mult) sum = fmaf(comb[j * mult + k], old[j], sum);
      }
      s[k * width + i] = rounded(sum, call.round);
    }
  });
}

}  // namespace

cudaError_t split_mix(cudaStream_t stream, const MixCall& call) {
  if (call.mult > mhc_streams_max) return cudaErrorNotSupported;
  if (is_mix_of_many(call)) return mix_many(stream, call);
  const auto rows = static_cast<unsigned>(call.raw.rows);
  const auto kernel = call.mult == 4 ? split_mix_kernel<4> : split_mix_kernel<0>;
  return launch_dependent(stream, {dim3(rows), warp_size, 1, 0}, kernel, call);
}

cudaError_t square_sums(cudaStream_t stream, const Tensor& x, const Tensor& squares) {
  return launch_dependent(stream, {dim3(static_cast<unsigned>(x.rows)), warp_size, 1, 0}, squares_kernel, x, squares);
}

cudaError_t collapse(cudaStream_t stream, const Tensor& streams, const Tensor& pre, bool round, const Tensor& out) {
  return launch_dependent(stream, {row_grid(out.rows, out.cols), row_threads, 1, 0}, collapse_kernel, streams, pre,
                          round, out);
}

cudaError_t expand(cudaStream_t stream, const ExpandCall& call) {
  if (call.post.cols > mhc_streams_max) return cudaErrorNotSupported;
  return launch_dependent(stream, {row_grid(call.y.rows, call.y.cols), row_threads, 1, 0}, expand_kernel, call);
}

}  // namespace tandem::gpu::cuda
