// The rotation of rows as a kernel of its own: one thread block a row and slice.
//
// Shapes   x [rows, inputs] f32, f16 or bf16 -> rotated fp16 [rows, inputs], undo f32 [rows, exl3_slices_max].
// Bytes    rows and suh read, 2 bytes an input written. A few microseconds at most: latency, not bandwidth.
#include "gpu/cuda/exl3/cluster.cuh"
#include "gpu/cuda/exl3/launch.hpp"
#include "gpu/cuda/exl3/rotation.cuh"
#include "gpu/cuda/exl3/split.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int warps_most = 32;
static_assert(warps_most * rotation_blocks_a_warp * exl3_block >= exl3_inputs_max, "a block holds the longest slice");

struct RotateJob {
  const void* suh;  // one matrix; null: look the row's matrix up, in lists that an earlier kernel may have written
  const Exl3Matrix* table;
  const std::int32_t* matrix_of_row;
  const std::int32_t* source_of_row;
  Exl3Rows x;
  Exl3Rotated rotated;
  int inputs;
};

__global__ void __launch_bounds__(32 * warps_most) rotate_kernel(const __grid_constant__ RotateJob job) {
  __shared__ std::uint32_t largest;
  const int row = blockIdx.x, slices = gridDim.y, index = blockIdx.y;
  Slice slice;
  slice.first_block = exl3_slice_begin(job.inputs, slices, index);
  slice.blocks = exl3_slice_begin(job.inputs, slices, index + 1) - slice.first_block;
  slice.rows = 1;
  SliceRotation rotation;
  if (threadIdx.x == 0) largest = 0;
  if (job.suh != nullptr) {
    rotation.load_suh(job.suh, slice);
    let_next_kernel_start();
  }
  wait_for_earlier_kernels();
  if (job.suh == nullptr) {
    rotation.load_suh(job.table[job.matrix_of_row[row]].suh, slice);
  }
  slice.source = job.source_of_row != nullptr ? job.source_of_row[row] : row;
  __half* out = static_cast<__half*>(job.rotated.values) + static_cast<std::int64_t>(row) * job.inputs +
                slice.first_block * exl3_block;
  __syncthreads();
  rotation.run(job.x, slice, out, 0, &largest, job.rotated.undo + row * exl3_slices_max + index);
}

cudaError_t launch(cudaStream_t stream, const RotateJob& job, int slices, int rows) {
  const int blocks = (job.inputs / exl3_block + slices - 1) / slices;
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(slices));
  shape.threads = 32 * (blocks < warps_most ? blocks : warps_most);
  return launch_dependent(stream, shape, rotate_kernel, job);
}

}  // namespace

cudaError_t exl3_rotate(cudaStream_t stream, const Exl3Matrix& matrix, const Exl3Rows& x, int rows,
                        Exl3Rotated rotated) {
  if (!exl3_accepts(matrix.shape) || rows < 1 || matrix.suh == nullptr) return cudaErrorInvalidValue;
  const RotateJob job{matrix.suh, nullptr, nullptr, nullptr, x, rotated, matrix.shape.inputs};
  return launch(stream, job, exl3_split_single(matrix.shape).slices, rows);
}

cudaError_t exl3_rotate_groups(cudaStream_t stream, const Exl3Shape& shape, const Exl3Groups& groups, const Exl3Rows& x,
                               int rows, Exl3Rotated rotated) {
  if (!exl3_accepts(shape) || rows < 1 || groups.matrix_of_row == nullptr) return cudaErrorInvalidValue;
  const RotateJob job{nullptr, groups.table, groups.matrix_of_row, groups.source_of_row, x, rotated, shape.inputs};
  return launch(stream, job, exl3_split_of_groups(shape).slices, rows);
}

}  // namespace tandem::gpu::cuda
