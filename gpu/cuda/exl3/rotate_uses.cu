// The rotation of the inputs of a few rows' uses of experts, in sorted order and without a plan: one block a use, slice
// and table. Inputs are rows of x, or what a gate makes of two products (gate.cuh), which saves the gate's own launch.
//
// Shapes   x [rows, inputs], or gate and up [uses, inputs] f32 -> rotated fp16 [tables * uses, inputs], undo, places.
// Bytes    inputs and suh read, 2 bytes an input written.
// Limit    latency: ids, a matrix of the table, its suh.
#include "gpu/cuda/exl3/cluster.cuh"
#include "gpu/cuda/exl3/launch.hpp"
#include "gpu/cuda/exl3/rotation.cuh"
#include "gpu/cuda/exl3/split.hpp"
#include "gpu/cuda/exl3/use_order.cuh"
#include "gpu/cuda/gate.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int use_warps_most = 32;
static_assert(use_warps_most * rotation_blocks_a_warp * exl3_block >= exl3_inputs_max,
              "a block holds the longest slice");

struct RotateUsesJob {
  Exl3Uses uses;
  const Exl3Matrix* tables[2] = {};
  Exl3Rotated rotated;
  std::int32_t* positions = nullptr;
  int inputs = 0;
};

// Columns column .. column + 3 of what a gate makes of row `row` of its products; 0 past their end.
__device__ __forceinline__ void load_gated(const Exl3Gate& gate, int row, float weight, int column, float (&v)[4]) {
  float up[4];
  load_four(gate.gate, row, column, v);
  load_four(gate.up, row, column, up);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[i] = column + i < gate.gate.columns ? weighted_gate(v[i], up[i], gate.limit, weight, gate.rounds) : 0.0f;
  }
}

template <bool is_gated>
__global__ void __launch_bounds__(32 * use_warps_most) rotate_uses_kernel(const __grid_constant__ RotateUsesJob job) {
  __shared__ std::uint32_t largest;
  const int use = static_cast<int>(blockIdx.x), index = static_cast<int>(blockIdx.y), table = blockIdx.z;
  const int slices = static_cast<int>(gridDim.y);
  if (threadIdx.x == 0) largest = 0;
  // The product starts when all before this kernel have ended, and reads ids meanwhile.
  wait_for_earlier_kernels();
  let_next_kernel_start();
  const Exl3Uses& uses = job.uses;
  const std::int32_t id = uses.ids[use];
  Slice slice;
  slice.first_block = exl3_slice_begin(job.inputs, slices, index);
  slice.blocks = exl3_slice_begin(job.inputs, slices, index + 1) - slice.first_block;
  slice.rows = 1;
  SliceRotation rotation;
  // Everything is requested before anything is waited for.
  int own = 0;
  if constexpr (is_gated) {
    own = job.positions[use];
    const float weight = uses.gate.weights[use];
    rotation.load_values([&](int, int column, float(&v)[4]) { load_gated(uses.gate, own, weight, column, v); }, slice);
  } else {
    rotation.load_values([&](int, int column, float(&v)[4]) { load_four(uses.x, use / uses.slots, column, v); }, slice);
  }
  rotation.load_suh(job.tables[table][id].suh, slice);
  if constexpr (!is_gated) {
    own = order_of_use(uses, use).place();
    if (table == 0 && index == 0 && threadIdx.x == 0) job.positions[use] = own;
  }
  const std::int64_t place = static_cast<std::int64_t>(table) * uses.count + own;
  __half* out = static_cast<__half*>(job.rotated.values) + place * job.inputs + slice.first_block * exl3_block;
  float* undo = job.rotated.undo + place * exl3_slices_max + index;
  __syncthreads();
  rotation.run(slice, out, 0, {&largest, undo});
}

}  // namespace

cudaError_t exl3_rotate_uses(cudaStream_t stream, const Exl3Shape& shape, const Exl3Uses& uses, Exl3Rotated rotated,
                             std::int32_t* positions) {
  if (!exl3_accepts(shape) || uses.table == nullptr || uses.ids == nullptr) return cudaErrorInvalidValue;
  if (uses.count < 1 || uses.count > exl3_sorted_uses_most || uses.slots < 1) return cudaErrorInvalidValue;
  const int slices = exl3_split_of_groups(shape).slices, tables = uses.second == nullptr ? 1 : 2;
  const int blocks = (shape.inputs / exl3_block + slices - 1) / slices;
  const RotateUsesJob job{uses, {uses.table, uses.second}, rotated, positions, shape.inputs};
  LaunchShape launch;
  launch.grid = dim3(static_cast<unsigned>(uses.count), static_cast<unsigned>(slices), static_cast<unsigned>(tables));
  launch.threads = 32 * (blocks < use_warps_most ? blocks : use_warps_most);
  if (uses.x.data != nullptr) return launch_dependent(stream, launch, rotate_uses_kernel<false>, job);
  return launch_dependent(stream, launch, rotate_uses_kernel<true>, job);
}

}  // namespace tandem::gpu::cuda
