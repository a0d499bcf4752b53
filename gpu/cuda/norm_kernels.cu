// Kernels that reduce a row to a number first: RMSNorm (alone and behind a collapse of streams), the Engram gate, the
// best column.
//
// Shapes   x [rows, cols]; Engram: streams [rows, C * D], kv [rows, (C + 1) * D], one block a row and stream.
// Order    sums in 16 lanes (lanes.cuh). A block first copies its row to shared memory with all threads, because the 16
//          lanes of the sum alone could not keep the memory busy.
// Bytes    each input once, each output once (RMSNorm reads x from shared memory the second time).
// Limit    the chain of cols / 16 dependent multiply-adds: about 1.5 us at 5120.
#include <cfloat>

#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/lanes.cuh"
#include "gpu/cuda/norm_row.cuh"
#include "gpu/cuda/row_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int threads = 512;
constexpr int input_threads = 640;  // two times four columns a thread at 5120
static_assert(near_row_most * sizeof(float) <= 48 << 10, "what a kernel may have without asking");

__device__ float* row_memory() {
  extern __shared__ __align__(16) float values[];
  return values;
}

std::size_t row_bytes(std::int64_t cols) {
  return cols <= near_row_most ? static_cast<std::size_t>(cols) * sizeof(float) : 0;
}

// Returns the row in shared memory if it fits, else the row itself. Ends with a barrier.
__device__ const float* near_row(const float* row, std::int64_t cols) {
  if (cols > near_row_most) return row;
  float* copy = row_memory();
  if (cols % 4 == 0 && reinterpret_cast<std::uintptr_t>(row) % 16 == 0) {
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < cols / 4; i += blockDim.x) {
      reinterpret_cast<float4*>(copy)[i] = reinterpret_cast<const float4*>(row)[i];
    }
  } else {
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) copy[i] = row[i];
  }
  __syncthreads();
  return copy;
}

__global__ void rmsnorm_kernel(NormCall call) {
  begin_dependent();
  const std::int64_t cols = call.x.cols;
  const float* x = near_row(row_of(call.x, blockIdx.x), cols);
  const auto block = static_cast<int>(blockDim.x);
  norm_row(x, cols, {call.weight, call.eps, call.round}, block, row_of(call.y, blockIdx.x));
}

// u of four neighbouring columns. All streams are loaded before the first is used: a block has no other work to hide
// them behind.
template <int mult>
__device__ float4 collapse_four(const float* s, const float (&mix)[mult], std::int64_t cols, std::int64_t i) {
  float4 from[mult];
#pragma unroll
  for (int j = 0; j < mult; ++j) from[j] = *reinterpret_cast<const float4*>(s + j * cols + i);
  float4 sum{mix[0] * from[0].x, mix[0] * from[0].y, mix[0] * from[0].z, mix[0] * from[0].w};
#pragma unroll
  for (int j = 1; j < mult; ++j) {
    sum.x = fmaf(mix[j], from[j].x, sum.x);
    sum.y = fmaf(mix[j], from[j].y, sum.y);
    sum.z = fmaf(mix[j], from[j].z, sum.z);
    sum.w = fmaf(mix[j], from[j].w, sum.w);
  }
  return sum;
}

// Collapse and norm; the collapsed row stays in shared memory. `mult` streams, cols and stride multiples of 4.
template <int mult>
__global__ void __launch_bounds__(input_threads) collapse_norm_kernel(InputCall call) {
  extern __shared__ __align__(16) float u[];
  const std::int64_t cols = call.y.cols;
  const float *s = row_of(call.streams, blockIdx.x), *pre = row_of(call.pre, blockIdx.x);
  begin_dependent();
  float mix[mult];
#pragma unroll
  for (int j = 0; j < mult; ++j) mix[j] = pre[j];
#pragma unroll 2
  for (std::int64_t i = threadIdx.x * std::int64_t{4}; i < cols; i += 4 * input_threads) {
    const float4 sum = collapse_four<mult>(s, mix, cols, i);
    *reinterpret_cast<float4*>(u + i) = {rounded(sum.x, call.round), rounded(sum.y, call.round),
                                         rounded(sum.z, call.round), rounded(sum.w, call.round)};
  }
  __syncthreads();
  norm_row(u, cols, {call.weight, call.eps, call.round}, input_threads, row_of(call.y, blockIdx.x));
}

// z = dot(h q, k key) / (|h| |key| sqrt(D)) in the RMS sense; the gate is the sigmoid of its signed square root.
__global__ void engram_gate_kernel(GateCall call) {
  begin_dependent();
  __shared__ float sums[3];
  __shared__ float gate;
  const std::int64_t row = blockIdx.x / call.mult, stream = blockIdx.x % call.mult;
  if (call.keep[row] == 0) return;
  const std::int64_t width = call.streams.cols / call.mult;
  float* h = row_of(call.streams, row) + stream * width;
  const float* key = row_of(call.kv, row) + stream * width;
  const float* value = row_of(call.kv, row) + call.mult * width;
  const float *q = call.q_weight + stream * width, *k = call.k_weight + stream * width;
  const int warp = threadIdx.x / warp_size;
  if (warp < 3) {
    const float sum = sum_in_lanes(width, [&](std::int64_t i, float s) {
      if (warp == 0) return fmaf(h[i], h[i], s);
      if (warp == 1) return fmaf(key[i], key[i], s);
      return fmaf(h[i] * (q[i] * k[i]), key[i], s);
    });
    if (threadIdx.x % warp_size == 0) sums[warp] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto n = static_cast<float>(width);
    const float rh = 1.0F / sqrtf(sums[0] / n + call.eps), rk = 1.0F / sqrtf(sums[1] / n + call.eps);
    const float z = sums[2] * rh * rk / sqrtf(n);
    gate = sigmoid(copysignf(sqrtf(fmaxf(fabsf(z), 1e-6F)), z));
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    h[i] = rounded(fmaf(gate, value[i], h[i]), call.round);
  }
}

struct Best {
  float value;
  std::int32_t column;
};

// The larger value, of equals the lower column; a NaN is never better.
__device__ Best better(Best a, Best b) {
  if (b.column < 0) return a;
  if (a.column < 0) return b;
  const bool takes_b = b.value > a.value || (b.value == a.value && b.column < a.column);
  return takes_b ? b : a;
}

__global__ void best_of_sum_kernel(BestCall call) {
  begin_dependent();
  __shared__ Best found[threads];
  const std::int64_t r = blockIdx.x;
  const float *a = row_of(call.a, r), *b = row_of(call.b, r);
  float* out = row_of(call.sums, r);
  Best best{-FLT_MAX, -1};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < call.sums.cols; i += blockDim.x) {
    out[i] = a[i] + b[i];
    best = better(best, {out[i], static_cast<std::int32_t>(i)});
  }
  found[threadIdx.x] = best;
  for (int step = threads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) found[threadIdx.x] = better(found[threadIdx.x], found[threadIdx.x + step]);
  }
  if (threadIdx.x == 0) {
    call.values[r] = found[0].value;
    call.columns[r] = found[0].column;
  }
}

}  // namespace

cudaError_t rmsnorm(cudaStream_t stream, const NormCall& call) {
  const auto rows = static_cast<unsigned>(call.x.rows);
  return launch_dependent(stream, {dim3(rows), threads, 1, row_bytes(call.x.cols)}, rmsnorm_kernel, call);
}

bool is_joint_input(const InputCall& call) {
  const auto address = reinterpret_cast<std::uintptr_t>(call.streams.data);
  return call.pre.cols == 4 && call.y.cols <= near_row_most && call.y.cols % 4 == 0 && call.streams.stride % 4 == 0 &&
         address % 16 == 0;
}

cudaError_t collapse_norm(cudaStream_t stream, const InputCall& call) {
  return launch_dependent(stream, {dim3(static_cast<unsigned>(call.y.rows)), input_threads, 1, row_bytes(call.y.cols)},
                          collapse_norm_kernel<4>, call);
}

cudaError_t engram_gate(cudaStream_t stream, const GateCall& call) {
  const auto blocks = static_cast<unsigned>(call.streams.rows * call.mult);
  return launch_dependent(stream, {dim3(blocks), threads, 1, 0}, engram_gate_kernel, call);
}

cudaError_t best_of_sum(cudaStream_t stream, const BestCall& call) {
  return launch_dependent(stream, {dim3(static_cast<unsigned>(call.sums.rows)), threads, 1, 0}, best_of_sum_kernel,
                          call);
}

}  // namespace tandem::gpu::cuda
