// Mixture of experts in three passes over the uses of experts (a use is one slot of one row) behind the plan of
// expert_plan.cu, tiles of up to 4 uses of one expert:
//
//   raise    h = weight * silu(x w1^T) (x w3^T)     a block is a tile and 8 of the intermediate channels, one warp
//   lower    one FP32 product a use and K slice      a block is a tile and 8 of the hidden channels, one warp
//   combine  y = sum over a row's slots in slot order, then the shared expert
//
// Shapes   x [T, D], slots 6, inter 2304 / R, experts up to 1024, T at most some hundred rows a call.
// Order    products by the linears' rule; the sum over experts in the row's own slot order. A row's bits do not depend
//          on how uses are grouped.
// Bytes    a used expert's three matrices once per tile: 0.75 * D * inter * 3 at FP4 with scales; products
//          4 * slices * D a use, written and read once.
// Limit    few rows: memory; many rows: FP32 multiply-adds.
// Plain    gpu/cpu/moe_ops.cpp; the test is bit equality.
#include "gpu/cuda/dependent.cuh"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/gate.cuh"
#include "gpu/cuda/weight_rows.cuh"

namespace tandem::gpu::cuda {
namespace {

// The tile of this block, and its uses; the last one stands in for those that are missing.
template <int rows>
__device__ bool load_tile(const ExpertPlan& plan, ExpertTile& tile, int (&uses)[rows]) {
  if (blockIdx.y >= *plan.tile_count) return false;
  tile = plan.tiles[blockIdx.y];
#pragma unroll
  for (int r = 0; r < rows; ++r) uses[r] = plan.uses[tile.first + (r < tile.count ? r : tile.count - 1)];
  return true;
}

template <WeightFormat format, int rows>
__global__ void __launch_bounds__(warp_size) raise_kernel(RaiseWork work) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char staging[];
  ExpertTile tile;
  int uses[rows];
  if (!load_tile<rows>(work.plan, tile, uses)) return;
  const ExpertMatrices& expert = work.experts[tile.expert];
  const std::int64_t first_output = blockIdx.x * std::int64_t{warp_outputs};
  const std::int64_t out = first_output + threadIdx.x / quarter;
  const float* inputs[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) inputs[r] = row_of(work.x, uses[r] / work.slots);
  float gate[rows], up[rows];
  multiply_rows<format, rows>(inputs, expert.w1, first_output, staging, gate);
  multiply_rows<format, rows>(inputs, expert.w3, first_output, staging, up);
  if (threadIdx.x % quarter != 0 || out >= expert.w1.n) return;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    if (r >= tile.count) continue;
    row_of(work.h, uses[r])[out] = weighted_gate(gate[r], up[r], work.limit, work.weights[uses[r]], work.round);
  }
}

template <WeightFormat format, int rows>
__global__ void __launch_bounds__(warp_size) lower_kernel(LowerWork work) {
  begin_dependent();
  extern __shared__ __align__(16) unsigned char staging[];
  ExpertTile tile;
  int uses[rows];
  if (!load_tile<rows>(work.plan, tile, uses)) return;
  const ExpertMatrices& expert = work.experts[tile.expert];
  const int slice = static_cast<int>(blockIdx.z);
  const Matrix& w = expert.w2[slice];
  const std::int64_t k_first = slice == 0 ? 0 : expert.w2[0].k;
  const std::int64_t first_output = blockIdx.x * std::int64_t{warp_outputs};
  const std::int64_t out = first_output + threadIdx.x / quarter;
  const float* inputs[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) inputs[r] = row_of(work.h, uses[r]) + k_first;
  float sums[rows];
  multiply_rows<format, rows>(inputs, w, first_output, staging, sums);
  if (threadIdx.x % quarter != 0 || out >= w.n) return;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    if (r < tile.count) row_of(work.products, slice * work.h.rows + uses[r])[out] = sums[r];
  }
}

__global__ void swiglu_kernel(Tensor gate, Tensor up, float limit, bool round, Tensor h) {
  begin_dependent();
  const float *g = row_of(gate, blockIdx.x), *u = row_of(up, blockIdx.x);
  float* out = row_of(h, blockIdx.x);
  for_each_column(h.cols, [&](std::int64_t i) { out[i] = rounded(gated(g[i], u[i], limit), round); });
}

__device__ float gated_use(const GateUsesWork& work, float gate, float up, float weight) {
  return weighted_gate(gate, up, work.limit, weight, work.round);
}

__global__ void gate_uses_kernel(GateUsesWork work) {
  begin_dependent();
  const float *g = row_of(work.gate, blockIdx.x), *u = row_of(work.up, blockIdx.x);
  float* h = row_of(work.h, blockIdx.x);
  const float weight = work.weights[work.uses[blockIdx.x]];
  for_each_column(work.h.cols, [&](std::int64_t i) { h[i] = gated_use(work, g[i], u[i], weight); });
}

// Four neighbouring columns a thread, whatever row they are in.
__global__ void gate_four_kernel(GateUsesWork work) {
  begin_dependent();
  const auto fours = static_cast<unsigned>(work.h.cols / 4), at = blockIdx.x * unsigned{row_threads} + threadIdx.x;
  const unsigned row = at / fours, i = at % fours;
  if (row >= work.h.rows) return;
  const float4 g = reinterpret_cast<const float4*>(row_of(work.gate, row))[i];
  const float4 u = reinterpret_cast<const float4*>(row_of(work.up, row))[i];
  const float weight = work.weights[work.uses[row]];
  reinterpret_cast<float4*>(row_of(work.h, row))[i] = {
      gated_use(work, g.x, u.x, weight), gated_use(work, g.y, u.y, weight), gated_use(work, g.z, u.z, weight),
      gated_use(work, g.w, u.w, weight)};
}

__device__ float added(float a, float b) {
  return a + b;
}
__device__ float4 added(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
__device__ float finished(float a, bool round) {
  return rounded(a, round);
}
__device__ float4 finished(float4 a, bool round) {
  return {rounded(a.x, round), rounded(a.y, round), rounded(a.z, round), rounded(a.w, round)};
}

// Value: float or float4, what a thread has of a row. All loads of some slots are in flight together.
template <class Value>
__global__ void combine_kernel(CombineWork work) {
  begin_dependent();
  const std::int64_t t = blockIdx.x, uses = work.rows * work.slots;
  const int blocks = work.is_finished ? 1 : work.slices;
  for_each_column(work.out.cols / static_cast<int>(sizeof(Value) / sizeof(float)), [&](std::int64_t i) {
    const auto value_at = [&](const Tensor& all, std::int64_t row) {
      return reinterpret_cast<const Value*>(row_of(all, row))[i];
    };
    for (int s = 0; s < blocks; ++s) {
      const auto product = [&](const Tensor& all, std::int64_t at, std::int64_t count) {
        Value value = value_at(all, s * count + at);
        if (!work.is_finished) return value;
        for (int next = 1; next < work.slices; ++next) value = added(value, value_at(all, next * count + at));
        return finished(value, work.round);
      };
      constexpr int ahead = 8;
      Value sum{};
      for (int first = 0; first < work.slots; first += ahead) {
        std::int64_t places[ahead];
        Value values[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
          if (first + j >= work.slots) continue;
          const std::int64_t use = t * work.slots + first + j;
          places[j] = work.position_of_use == nullptr ? use : work.position_of_use[use];
        }
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
          if (first + j < work.slots) values[j] = product(work.products, places[j], uses);
        }
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
          if (first + j < work.slots) sum = added(sum, values[j]);
        }
      }
      if (work.shared.data != nullptr) sum = added(sum, product(work.shared, t, work.rows));
      reinterpret_cast<Value*>(row_of(work.out, s * work.out_stride_rows + t))[i] =
          finished(sum, work.is_finished && work.round);
    }
  });
}

// Calls launch.operator()<format, tile rows>() for the work's format and tile.
template <class Work, class Launch>
cudaError_t dispatch(const Work& work, const Launch& launch) {
  const bool is_single = work.tile_rows == 1;
  switch (work.format) {
    case WeightFormat::f32:
      is_single ? launch.template operator()<WeightFormat::f32, 1>()
                : launch.template operator()<WeightFormat::f32, 4>();
      break;
    case WeightFormat::bf16:
      is_single ? launch.template operator()<WeightFormat::bf16, 1>()
                : launch.template operator()<WeightFormat::bf16, 4>();
      break;
    case WeightFormat::fp8_block32:
      is_single ? launch.template operator()<WeightFormat::fp8_block32, 1>()
                : launch.template operator()<WeightFormat::fp8_block32, 4>();
      break;
    case WeightFormat::fp4_block32:
      is_single ? launch.template operator()<WeightFormat::fp4_block32, 1>()
                : launch.template operator()<WeightFormat::fp4_block32, 4>();
      break;
    case WeightFormat::exl3:
      return cudaErrorNotSupported;
  }
  return cudaGetLastError();
}

// From here on rows are read and written four columns at a time: fewer would occupy too few multiprocessors.
constexpr std::int64_t rows_of_fours = 64;

bool has_fours(const Tensor& x) {
  return x.data == nullptr ||
         (x.cols % 4 == 0 && x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0);
}

unsigned output_blocks(std::int64_t outputs) {
  return static_cast<unsigned>((outputs + warp_outputs - 1) / warp_outputs);
}

}  // namespace

cudaError_t raise(cudaStream_t stream, const RaiseWork& work) {
  const dim3 grid(output_blocks(work.h.cols), static_cast<unsigned>(work.plan.tiles_max));
  return dispatch(work, [&]<WeightFormat format, int rows>() {
    (void)launch_dependent(stream, {grid, warp_size, 1, staging_bytes}, raise_kernel<format, rows>, work);
  });
}

cudaError_t lower(cudaStream_t stream, const LowerWork& work) {
  const dim3 grid(output_blocks(work.products.cols), static_cast<unsigned>(work.plan.tiles_max),
                  static_cast<unsigned>(work.slices));
  return dispatch(work, [&]<WeightFormat format, int rows>() {
    (void)launch_dependent(stream, {grid, warp_size, 1, staging_bytes}, lower_kernel<format, rows>, work);
  });
}

cudaError_t swiglu(cudaStream_t stream, const Tensor& gate, const Tensor& up, float limit, bool round,
                   const Tensor& h) {
  return launch_dependent(stream, {row_grid(h.rows, h.cols), row_threads, 1, 0}, swiglu_kernel, gate, up, limit, round,
                          h);
}

cudaError_t gate_uses(cudaStream_t stream, const GateUsesWork& work) {
  const std::int64_t fours = work.h.rows * (work.h.cols / 4);
  if (work.h.rows >= rows_of_fours && fours < INT32_MAX && has_fours(work.gate) && has_fours(work.up) &&
      has_fours(work.h)) {
    const dim3 grid(static_cast<unsigned>((fours + row_threads - 1) / row_threads));
    return launch_dependent(stream, {grid, row_threads, 1, 0}, gate_four_kernel, work);
  }
  return launch_dependent(stream, {row_grid(work.h.rows, work.h.cols), row_threads, 1, 0}, gate_uses_kernel, work);
}

cudaError_t combine(cudaStream_t stream, const CombineWork& work) {
  if (work.rows >= rows_of_fours && has_fours(work.products) && has_fours(work.shared) && has_fours(work.out)) {
    return launch_dependent(stream, {row_grid(work.rows, work.out.cols / 4), row_threads, 1, 0}, combine_kernel<float4>,
                            work);
  }
  return launch_dependent(stream, {row_grid(work.rows, work.out.cols), row_threads, 1, 0}, combine_kernel<float>, work);
}

}  // namespace tandem::gpu::cuda
