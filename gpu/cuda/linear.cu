// Linears over compact weights: y[r, :] = x[r, :] W^T.
//
// Shapes   x [rows, k] f32, W [n, k] in its file's format, y [rows, n] f32; any size down to 1 x 1.
// Order    per output 16 lanes over K (weight_rows.cuh), for any number of rows.
// Bytes    W once per 8 rows (from L2 when there are more), x once per 64 outputs from L1, y once.
// Limit    1 row: memory latency, as there are only n / 64 blocks. Many rows: 1 FP32 multiply-add per weight and row,
// no
//          tensor cores.
// Plain    gpu/cpu/linear_ops.cpp; the test is bit equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/weight_rows.cuh"

namespace tandem::gpu::cuda {
namespace {

template <WeightFormat format, int rows>
__global__ void __launch_bounds__(warp_size) multiply_kernel(Tensor x, Matrix w, bool round, Tensor y) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char shared[];
  const std::int64_t first_output = blockIdx.x * std::int64_t{warp_outputs};
  const std::int64_t first = blockIdx.y * std::int64_t{rows};
  const float* inputs[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) inputs[r] = row_of(x, first + r < x.rows ? first + r : x.rows - 1);
  float sums[rows];
  multiply_rows<format, rows>(inputs, w, first_output, shared, sums);
  const std::int64_t out = first_output + threadIdx.x / quarter;
  if (threadIdx.x % quarter != 0 || out >= w.n) return;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    if (first + r < x.rows) row_of(y, first + r)[out] = rounded(sums[r], round);
  }
}

template <WeightFormat format, int rows>
cudaError_t launch(cudaStream_t stream, const Tensor& x, const Matrix& w, bool round, const Tensor& y) {
  const dim3 grid(static_cast<unsigned>((w.n + warp_outputs - 1) / warp_outputs),
                  static_cast<unsigned>((x.rows + rows - 1) / rows));
  return launch_dependent(stream, {grid, warp_size, 1, staging_bytes}, multiply_kernel<format, rows>, x, w, round, y);
}

template <WeightFormat format>
cudaError_t launch_rows(cudaStream_t stream, const Tensor& x, const Matrix& w, bool round, const Tensor& y) {
  if (x.rows == 1) return launch<format, 1>(stream, x, w, round, y);
  if (x.rows <= 4) return launch<format, 4>(stream, x, w, round, y);
  return launch<format, 8>(stream, x, w, round, y);
}

// One warp a group of 32 columns: the largest magnitude as bits (a NaN is larger than everything), then each value.
__global__ void fake_q8_kernel(Tensor x, Tensor to) {
  begin_dependent();
  const float* from = row_of(x, blockIdx.x);
  float* out = row_of(to, blockIdx.x);
  for_each_column((x.cols + 31) / 32 * 32, [&](std::int64_t i) {
    const float value = i < x.cols ? from[i] : 0.0F;
    const unsigned floor = __float_as_uint(1e-4F), own = __float_as_uint(value) & ~f32_sign_bit;
    const unsigned largest = __reduce_max_sync(full_warp, own > floor ? own : floor);
    const float scale = e8m0_to_float(e8m0_ceil(__uint_as_float(largest) * (1.0F / 448.0F)));
    if (i < x.cols) out[i] = round_to_e4m3(value / scale) * scale;
  });
}

}  // namespace

cudaError_t multiply(cudaStream_t stream, const Tensor& x, const Linear& weight, bool round, const Tensor& y) {
  const Matrix w = matrix_of(weight, x);
  switch (weight.format) {
    case WeightFormat::f32:
      return launch_rows<WeightFormat::f32>(stream, x, w, round, y);
    case WeightFormat::bf16:
      return launch_rows<WeightFormat::bf16>(stream, x, w, round, y);
    case WeightFormat::fp8_block32:
      return launch_rows<WeightFormat::fp8_block32>(stream, x, w, round, y);
    case WeightFormat::fp4_block32:
      return launch_rows<WeightFormat::fp4_block32>(stream, x, w, round, y);
    case WeightFormat::exl3:
      break;
  }
  return cudaErrorNotSupported;
}

cudaError_t fake_q8(cudaStream_t stream, const Tensor& x, const Tensor& to) {
  return launch_dependent(stream, {row_grid(x.rows, x.cols), row_threads, 1, 0}, fake_q8_kernel, x, to);
}

}  // namespace tandem::gpu::cuda
