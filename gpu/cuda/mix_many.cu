// The coefficients of many rows: what mix_split.cuh computes with a warp for a row, by four threads for a row.
//
// Shapes   raw products [T, 24], square sums [T, 1] -> pre, post [T, 4], comb [T, 16]; four streams only.
// Work     thread j of a row holds row j of its 4 x 4 matrix: sums over rows stay inside a thread, sums over columns
//          ask the other three, and four quotients are under way at a time.
// Order    sums ascend as there: the same bits.
// Limit    the 2 * 20 dependent normalisations, some microseconds, whatever the rows.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/mhc_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int mix_streams = 4;
constexpr int mix_threads = 64;  // 16 rows: 128 blocks at 2048 rows

struct MatrixRow {
  float a[mix_streams];

  // a = exp(a - the largest of the row).
  __device__ void exponentiate() {
    float most = a[0];
#pragma unroll
    for (int k = 1; k < mix_streams; ++k) most = most < a[k] ? a[k] : most;
#pragma unroll
    for (float& value : a) value = exponential(value - most);
  }
  __device__ float sum() const {
    float all = 0;
#pragma unroll
    for (const float value : a) all += value;
    return all;
  }
  __device__ void divide(float by) {
#pragma unroll
    for (float& value : a) value /= by;
  }
  // Divides every column by its sum and eps; `first` is the lane of row 0.
  __device__ void divide_columns(int first, float eps) {
#pragma unroll
    for (float& value : a) {
      float all = 0;
#pragma unroll
      for (int j = 0; j < mix_streams; ++j) all += __shfl_sync(full_warp, value, first + j);
      value /= all + eps;
    }
  }
};

__global__ void __launch_bounds__(mix_threads) mix_many_kernel(MixCall call) {
  begin_dependent();
  const int j = static_cast<int>(threadIdx.x) % mix_streams, lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t wanted = (blockIdx.x * std::int64_t{mix_threads} + threadIdx.x) / mix_streams;
  const bool is_row = wanted < call.raw.rows;
  const std::int64_t row = is_row ? wanted : call.raw.rows - 1;
  const float mean = row_of(call.squares, row)[0] / static_cast<float>(call.width);
  const float factor = 1.0F / sqrtf(mean + call.norm_eps);
  const float* raw = row_of(call.raw, row);
  const auto coefficient = [&](int at, int part) { return factor * raw[at] * call.scale[part] + call.base[at]; };
  if (is_row) {
    row_of(call.pre, row)[j] = sigmoid(coefficient(j, 0)) + call.eps;
    row_of(call.post, row)[j] = 2.0F * sigmoid(coefficient(mix_streams + j, 1));
  }
  MatrixRow own;
#pragma unroll
  for (int k = 0; k < mix_streams; ++k) own.a[k] = coefficient((2 + j) * mix_streams + k, 2);
  own.exponentiate();
  own.divide(own.sum());
#pragma unroll
  for (float& value : own.a) value += call.eps;
  own.divide_columns(lane - j, call.eps);
  for (int i = 1; i < call.iterations; ++i) {
    own.divide(own.sum() + call.eps);
    own.divide_columns(lane - j, call.eps);
  }
  if (!is_row) return;
#pragma unroll
  for (int k = 0; k < mix_streams; ++k) row_of(call.comb, row)[j * mix_streams + k] = own.a[k];
}

}  // namespace

bool is_mix_of_many(const MixCall& call) {
  constexpr std::int64_t rows_least = 64;
  return call.mult == mix_streams && call.raw.rows >= rows_least;
}

cudaError_t mix_many(cudaStream_t stream, const MixCall& call) {
  const std::int64_t threads = call.raw.rows * mix_streams;
  const dim3 grid(static_cast<unsigned>((threads + mix_threads - 1) / mix_threads));
  return launch_dependent(stream, {grid, mix_threads, 1, 0}, mix_many_kernel, call);
}

}  // namespace tandem::gpu::cuda
