// Element-by-element kernels over rows, and the copies of whole rows.
//
// Shapes   rows x cols f32, cols 256 to 20480; a copy list has one entry a row.
// Order    none: every element is computed by itself; sums of blocks add in block order.
// Bytes    each input once, each output once.
// Limit    launch latency up to some 100 rows, memory bandwidth above.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/row_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

__global__ void move_rows_kernel(const Move* moves, std::int64_t cols) {
  begin_dependent();
  const Move move = moves[blockIdx.x];
  for_each_column(cols, [&](std::int64_t i) { move.to[i] = move.from[i]; });
}

__global__ void scale_kernel(Tensor x, float factor, bool round) {
  begin_dependent();
  float* row = row_of(x, blockIdx.x);
  for_each_column(x.cols, [&](std::int64_t i) { row[i] = rounded(row[i] * factor, round); });
}

__global__ void sum_blocks_kernel(Tensor parts, bool round, Tensor sum) {
  begin_dependent();
  const std::int64_t count = parts.rows / sum.rows;
  float* out = row_of(sum, blockIdx.x);
  for_each_column(sum.cols, [&](std::int64_t i) {
    float total = row_of(parts, blockIdx.x)[i];
    for (std::int64_t b = 1; b < count; ++b) total += row_of(parts, b * sum.rows + blockIdx.x)[i];
    out[i] = rounded(total, round);
  });
}

__global__ void round_kernel(Tensor x) {
  begin_dependent();
  float* row = row_of(x, blockIdx.x);
  for_each_column(x.cols, [&](std::int64_t i) { row[i] = round_to_bf16(row[i]); });
}

__global__ void mean_streams_kernel(Tensor streams, int mult, bool round, Tensor out) {
  begin_dependent();
  const float* row = row_of(streams, blockIdx.x);
  const std::int64_t width = streams.cols / mult;
  const float share = 1.0F / static_cast<float>(mult);
  float* mean = row_of(out, blockIdx.x);
  for_each_column(width, [&](std::int64_t i) {
    float sum = row[i];
    for (int c = 1; c < mult; ++c) sum += row[c * width + i];
    mean[i] = rounded(share * sum, round);
  });
}

__global__ void gather_rows_kernel(const std::uint16_t* table, const std::int32_t* ids, Tensor out) {
  begin_dependent();
  const std::uint16_t* from = table + ids[blockIdx.x] * out.cols;
  float* to = row_of(out, blockIdx.x);
  for_each_column(out.cols, [&](std::int64_t i) { to[i] = bf16_to_float(from[i]); });
}

// Rotates (x[2k], x[2k+1]) as a complex number; products and sums are rounded one by one as the reference does.
__global__ void rotate_kernel(RotationCall call) {
  begin_dependent();
  const std::int64_t dim = call.x.cols / call.heads;
  const std::int64_t angle = call.positions[blockIdx.x] * call.pairs;
  const std::int64_t count = static_cast<std::int64_t>(call.heads) * call.pairs;
  float* row = row_of(call.x, blockIdx.x);
  for_each_column(count, [&](std::int64_t i) {
    const std::int64_t head = i / call.pairs, k = i % call.pairs;
    float* pair = row + (head + 1) * dim - 2 * call.pairs + 2 * k;
    const float re = pair[0], im = pair[1], c = call.cos[angle + k];
    const float s = call.inverse ? -call.sin[angle + k] : call.sin[angle + k];
    pair[0] = rounded(re * c - im * s, call.round);
    pair[1] = rounded(re * s + im * c, call.round);
  });
}

__global__ void pool_pair_kernel(PairCall call) {
  begin_dependent();
  const float *ka = row_of(call.key_a, blockIdx.x), *kb = row_of(call.key_b, blockIdx.x);
  const float *ga = row_of(call.gate_a, blockIdx.x), *gb = row_of(call.gate_b, blockIdx.x);
  float* out = row_of(call.out, blockIdx.x);
  for_each_column(call.out.cols, [&](std::int64_t i) {
    const float most = gb[i] > ga[i] ? gb[i] : ga[i];
    const float a = exponential(ga[i] - most), b = exponential(gb[i] - most);
    const float sum = a + b;
    out[i] = rounded(ka[i] * (a / sum) + kb[i] * (b / sum), call.round);
  });
}

}  // namespace

cudaError_t move_rows(cudaStream_t stream, const Move* moves, std::int64_t count, std::int64_t cols) {
  return launch_dependent(stream, {row_grid(count, cols), row_threads, 1, 0}, move_rows_kernel, moves, cols);
}

cudaError_t scale(cudaStream_t stream, const Tensor& x, float factor, bool round) {
  return launch_dependent(stream, {row_grid(x.rows, x.cols), row_threads, 1, 0}, scale_kernel, x, factor, round);
}

cudaError_t sum_blocks(cudaStream_t stream, const Tensor& parts, bool round, const Tensor& sum) {
  return launch_dependent(stream, {row_grid(sum.rows, sum.cols), row_threads, 1, 0}, sum_blocks_kernel, parts, round,
                          sum);
}

cudaError_t round_bf16(cudaStream_t stream, const Tensor& x) {
  return launch_dependent(stream, {row_grid(x.rows, x.cols), row_threads, 1, 0}, round_kernel, x);
}

cudaError_t mean_streams(cudaStream_t stream, const Tensor& streams, int mult, bool round, const Tensor& out) {
  return launch_dependent(stream, {row_grid(streams.rows, out.cols), row_threads, 1, 0}, mean_streams_kernel, streams,
                          mult, round, out);
}

cudaError_t gather_rows(cudaStream_t stream, const std::uint16_t* table, const std::int32_t* ids, const Tensor& out) {
  return launch_dependent(stream, {row_grid(out.rows, out.cols), row_threads, 1, 0}, gather_rows_kernel, table, ids,
                          out);
}

cudaError_t rotate(cudaStream_t stream, const RotationCall& call) {
  const std::int64_t count = static_cast<std::int64_t>(call.heads) * call.pairs;
  return launch_dependent(stream, {row_grid(call.x.rows, count), row_threads, 1, 0}, rotate_kernel, call);
}

cudaError_t pool_pair(cudaStream_t stream, const PairCall& call) {
  return launch_dependent(stream, {row_grid(call.out.rows, call.out.cols), row_threads, 1, 0}, pool_pair_kernel, call);
}

}  // namespace tandem::gpu::cuda
