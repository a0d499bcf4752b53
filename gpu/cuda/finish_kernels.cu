// Norm, factor, rotation, X4 and record of rows that a product left, while they are in one block's hands.
//
// Shapes   up to 3 tensors [rows, cols], cols up to 12256: latent query 1280 and window entry 512; index queries 32 x
//          128 and head weights 32; index key 128 and compressed entry 512. A block is one row of one tensor.
// Order    the sum of squares in 16 lanes (lanes.cuh); everything else element by element, in the order and with the
//          roundings of rmsnorm, scale, rope, quantise_x4 and write_records one after the other: their bits.
// Bytes    4 cols in, 4 cols and the record out; the row stays in shared memory in between.
// Limit    launch latency, and the chain of cols / 16 dependent multiply-adds where there is a norm.
// Plain    Ops::finish_rows; the test is bit equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/finish_kernels.hpp"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/norm_row.cuh"
#include "gpu/cuda/records.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int threads = 512;
static_assert(finish_cols_max * sizeof(float) <= 48 << 10, "what a kernel may have without asking");

// Each step ends with a barrier if the next one reads what other threads wrote.
__device__ void normalise(const FinishJob& job, float* row, int cols) {
  norm_row(row, cols, {job.norm, job.eps, job.round}, threads, row);
  __syncthreads();
}

__device__ void turn(const FinishJob& job, float* row, int cols) {
  const int dim = cols / job.heads;
  const std::int64_t angle = job.positions[blockIdx.x] * job.pairs;
  for (int i = threadIdx.x; i < job.heads * job.pairs; i += threads) {
    const int head = i / job.pairs, k = i % job.pairs;
    float* pair = row + (head + 1) * dim - 2 * job.pairs + 2 * k;
    const float re = pair[0], im = pair[1], c = job.cos[angle + k], s = job.sin[angle + k];
    pair[0] = rounded(re * c - im * s, job.round);
    pair[1] = rounded(re * s + im * c, job.round);
  }
  __syncthreads();
}

__device__ void quantise_row(float* row, int cols) {
  for (int i = threadIdx.x; i < (cols + 31) / 32 * 32; i += threads) {
    const Code code = quantise<RecordFormat::x4>(i < cols ? row[i] : 0.0F);
    if (i < cols) row[i] = code.value + 0.0F;  // a zero has no sign: index queries are only multiplied
  }
  __syncthreads();
}

__device__ void store_record(const FinishJob& job, const float* row, int cols) {
  std::byte* place = job.places[blockIdx.x];
  switch (job.format) {
    case RecordFormat::f32:
      for (int i = threadIdx.x; i < cols; i += threads) reinterpret_cast<float*>(place)[i] = row[i];
      return;
    case RecordFormat::w8:
      return write_record<RecordFormat::w8>(row, cols, place);
    case RecordFormat::n4:
      return write_record<RecordFormat::n4>(row, cols, place);
    case RecordFormat::x4:
      return write_record<RecordFormat::x4>(row, cols, place);
  }
}

__global__ void __launch_bounds__(threads) finish_kernel(FinishCall call) {
  begin_dependent();
  extern __shared__ __align__(16) float row[];
  const FinishJob& job = call.jobs[blockIdx.y];
  if (blockIdx.x >= job.x.rows) return;
  const int cols = static_cast<int>(job.x.cols);
  const float* x = row_of(job.x, blockIdx.x);
#pragma unroll 4
  for (int i = threadIdx.x; i < cols; i += threads) row[i] = x[i];
  __syncthreads();
  if (job.norm != nullptr) normalise(job, row, cols);
  if (job.factor != 1) {
    for (int i = threadIdx.x; i < cols; i += threads) row[i] = rounded(row[i] * job.factor, job.round);
    __syncthreads();
  }
  if (job.pairs > 0) turn(job, row, cols);
  if (job.quantises_x4) quantise_row(row, cols);
  float* y = row_of(job.y, blockIdx.x);
#pragma unroll 4
  for (int i = threadIdx.x; i < cols; i += threads) y[i] = row[i];
  if (job.places != nullptr) store_record(job, row, cols);
}

}  // namespace

cudaError_t finish(cudaStream_t stream, const FinishCall& call) {
  std::int64_t rows = 0, cols = 0;
  for (int i = 0; i < call.count; ++i) {
    const Tensor& x = call.jobs[i].x;
    rows = x.rows > rows ? x.rows : rows;
    cols = x.cols > cols ? x.cols : cols;
  }
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(call.count));
  return launch_dependent(stream, {grid, threads, 1, static_cast<std::size_t>(cols) * sizeof(float)}, finish_kernel,
                          call);
}

}  // namespace tandem::gpu::cuda
