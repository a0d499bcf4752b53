// The rotation of rows as a kernel of its own: one thread block a row and slice.
//
// Shapes   x [rows, inputs] f32, f16 or bf16 -> rotated fp16 [rows, inputs], undo f32 [rows, exl3_slices_max].
// Bytes    rows and suh read, 2 bytes an input written. A few microseconds at most: latency, not bandwidth.
#include <algorithm>

#include "gpu/cuda/exl3/cluster.cuh"
#include "gpu/cuda/exl3/launch.hpp"
#include "gpu/cuda/exl3/rotation.cuh"
#include "gpu/cuda/exl3/split.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int warps_most = 32;
static_assert(warps_most * rotation_blocks_a_warp * exl3_block >= exl3_inputs_max, "a block holds the longest slice");

// blockIdx.z is the member of a set, or the table of groups.
struct RotateJob {
  Exl3Member members[exl3_members_max];  // of whose matrices only suh is read; or
  const Exl3Matrix* tables[2] = {};      // look the row's matrix up, in lists that an earlier kernel may have written
  const std::int32_t* matrix_of_row = nullptr;
  const std::int32_t* source_of_row = nullptr;
  Exl3Rows x;  // of the tables
  Exl3Rotated rotated;
  int inputs = 0;
};

__global__ void __launch_bounds__(32 * warps_most) rotate_kernel(const __grid_constant__ RotateJob job) {
  __shared__ std::uint32_t largest;
  const int row = blockIdx.x, slices = gridDim.y, index = blockIdx.y, part = blockIdx.z;
  const std::int64_t place = static_cast<std::int64_t>(part) * gridDim.x + row;
  Slice slice;
  slice.first_block = exl3_slice_begin(job.inputs, slices, index);
  slice.blocks = exl3_slice_begin(job.inputs, slices, index + 1) - slice.first_block;
  slice.rows = 1;
  SliceRotation rotation;
  if (threadIdx.x == 0) largest = 0;
  const bool is_set = job.matrix_of_row == nullptr;
  if (is_set) {
    rotation.load_suh(job.members[part].matrix.suh, slice);
    let_next_kernel_start();
  }
  wait_for_earlier_kernels();
  if (!is_set) rotation.load_suh(job.tables[part][job.matrix_of_row[row]].suh, slice);
  slice.source = job.source_of_row != nullptr ? job.source_of_row[row] : row;
  __half* out = static_cast<__half*>(job.rotated.values) + place * job.inputs + slice.first_block * exl3_block;
  __syncthreads();
  rotation.run(is_set ? job.members[part].x : job.x, slice, out, 0, &largest,
               job.rotated.undo + place * exl3_slices_max + index);
}

cudaError_t launch(cudaStream_t stream, const RotateJob& job, int slices, dim3 rows_and_parts) {
  const int blocks = (job.inputs / exl3_block + slices - 1) / slices;
  LaunchShape shape;
  shape.grid = dim3(rows_and_parts.x, static_cast<unsigned>(slices), rows_and_parts.y);
  shape.threads = 32 * (blocks < warps_most ? blocks : warps_most);
  return launch_dependent(stream, shape, rotate_kernel, job);
}

}  // namespace

cudaError_t exl3_rotate_set(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated rotated) {
  if (set.count < 1 || set.count > exl3_members_max || rows < 1) return cudaErrorInvalidValue;
  const Exl3Shape& shape = set.members[0].matrix.shape;
  RotateJob job;
  std::copy_n(set.members, set.count, job.members);
  job.rotated = rotated;
  job.inputs = shape.inputs;
  return launch(stream, job, exl3_split_of_set(shape, set.count).slices,
                dim3(static_cast<unsigned>(rows), static_cast<unsigned>(set.count)));
}

cudaError_t exl3_rotate(cudaStream_t stream, const Exl3Matrix& matrix, const Exl3Rows& x, int rows,
                        Exl3Rotated rotated) {
  if (!exl3_accepts(matrix.shape) || rows < 1 || matrix.suh == nullptr) return cudaErrorInvalidValue;
  Exl3Set set;
  set.members[0] = {matrix, x, {}};
  set.count = 1;
  return exl3_rotate_set(stream, set, rows, rotated);
}

cudaError_t exl3_rotate_groups(cudaStream_t stream, const Exl3Shape& shape, const Exl3Groups& groups, const Exl3Rows& x,
                               int rows, Exl3Rotated rotated) {
  if (!exl3_accepts(shape) || rows < 1 || groups.matrix_of_row == nullptr) return cudaErrorInvalidValue;
  RotateJob job;
  job.tables[0] = groups.table;
  job.tables[1] = groups.second;
  job.matrix_of_row = groups.matrix_of_row;
  job.source_of_row = groups.source_of_row;
  job.x = x;
  job.rotated = rotated;
  job.inputs = shape.inputs;
  return launch(stream, job, exl3_split_of_groups(shape).slices,
                dim3(static_cast<unsigned>(rows), groups.second == nullptr ? 1U : 2U));
}

}  // namespace tandem::gpu::cuda
