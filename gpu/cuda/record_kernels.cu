// Rows into records: W8 window entries, N4 compressed entries, X4 index keys, f32 where nothing is quantised.
//
// Shapes   x [rows, n], n 128 or 512 (any even number); one block a row, a warp a group of 32 columns.
// Order    the largest magnitude of a group has none; every value is rounded by itself. Bit exact.
// Bytes    4 n in, 528 / 288 / 68 out.
// Limit    launch latency.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/record_kernels.hpp"
#include "gpu/cuda/records.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int threads = 256;

template <RecordFormat format>
__global__ void write_kernel(WriteCall call) {
  begin_dependent();
  write_record<format>(row_of(call.x, blockIdx.x), call.x.cols, call.places[blockIdx.x]);
}

__global__ void copy_kernel(WriteCall call) {
  begin_dependent();
  const float* x = row_of(call.x, blockIdx.x);
  auto* record = reinterpret_cast<float*>(call.places[blockIdx.x]);
  for (std::int64_t i = threadIdx.x; i < call.x.cols; i += blockDim.x) record[i] = x[i];
}

__global__ void fake_x4_kernel(Tensor x) {
  begin_dependent();
  float* row = row_of(x, blockIdx.x);
  for (std::int64_t i = threadIdx.x; i < (x.cols + 31) / 32 * 32; i += blockDim.x) {
    const Code code = quantise<RecordFormat::x4>(i < x.cols ? row[i] : 0.0F);
    if (i < x.cols) row[i] = code.value + 0.0F;  // a zero has no sign: index queries are only multiplied
  }
}

}  // namespace

cudaError_t fake_x4(cudaStream_t stream, const Tensor& x) {
  const dim3 grid(static_cast<unsigned>(x.rows));
  return launch_dependent(stream, {grid, threads, 1, 0}, fake_x4_kernel, x);
}

cudaError_t write_records(cudaStream_t stream, const WriteCall& call) {
  const auto rows = static_cast<unsigned>(call.x.rows);
  switch (call.format) {
    case RecordFormat::f32:
      return launch_dependent(stream, {dim3(rows), threads, 1, 0}, copy_kernel, call);
    case RecordFormat::w8:
      return launch_dependent(stream, {dim3(rows), threads, 1, 0}, write_kernel<RecordFormat::w8>, call);
    case RecordFormat::n4:
      return launch_dependent(stream, {dim3(rows), threads, 1, 0}, write_kernel<RecordFormat::n4>, call);
    case RecordFormat::x4:
      return launch_dependent(stream, {dim3(rows), threads, 1, 0}, write_kernel<RecordFormat::x4>, call);
  }
  return cudaErrorNotSupported;
}

}  // namespace tandem::gpu::cuda
