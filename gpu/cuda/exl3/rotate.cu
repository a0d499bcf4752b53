// The rotation of rows as a kernel of its own: one thread block a row and slice; of many rows, whole rows a block.
//
// Shapes   x [rows, inputs] f32, f16 or bf16 -> rotated fp16 [rows, inputs], undo f32 [rows, exl3_slices_max].
// Bytes    rows and suh read, 2 bytes an input written.
// Limit    few rows: a few microseconds of latency; many: memory (rotation_many.cuh).
#include <algorithm>

#include "gpu/cuda/exl3/cluster.cuh"
#include "gpu/cuda/exl3/launch.hpp"
#include "gpu/cuda/exl3/rotation.cuh"
#include "gpu/cuda/exl3/rotation_many.cuh"
#include "gpu/cuda/exl3/split.hpp"

namespace tandem::gpu::cuda {
namespace {

constexpr int warps_most = 32;
static_assert(warps_most * rotation_blocks_a_warp * exl3_block >= exl3_inputs_max, "a block holds the longest slice");

// Parts are the members of a set, or the tables of groups.
struct RotateJob {
  Exl3Member members[exl3_members_max];  // of whose matrices only suh is read; or
  const Exl3Matrix* tables[2] = {};      // look the row's matrix up, in lists that an earlier kernel may have written
  const std::int32_t* matrix_of_row = nullptr;
  const std::int32_t* source_of_row = nullptr;
  const std::int32_t* row_of_use = nullptr;  // with `slots` uses of every row of x
  int slots = 0;
  Exl3Rows x;  // of the tables
  Exl3Rotated rotated;
  int inputs = 0, slices = 1, rows = 0, parts = 1;

  __device__ bool is_set() const { return matrix_of_row == nullptr; }
  // Whether the product behind is that of product_warpgroup.cuh.
  __device__ bool is_before_warpgroups() const { return is_set() && rotated.order == Exl3Order::steps; }
  __device__ const Exl3Rows& x_of(int part) const { return is_set() ? members[part].x : x; }
  __device__ const void* suh_of(int part, std::int64_t row) const {
    return is_set() ? members[part].matrix.suh : tables[part][matrix_of_row[row]].suh;
  }
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
               job.rotated.undo + place * exl3_slices_max + index, job.rotated.order);
}

// Many rows: a block takes `near` rows at a time, 8 threads a Hadamard block of each, and `rounds` times as many one
// after the other. The next rows are read while the present ones are transformed, and the scales of a matrix stay as
// long as its rows follow each other. Blocks of the same rows for all parts lie side by side: parts that read the same
// x find it in the second-level cache.
constexpr int many_rows_least = 64, many_threads = 256, near_rows_most = 32, rounds_most = 8;
constexpr int blocks_wanted = 528;  // four for each multiprocessor of a Hopper card
constexpr int grid_y_most = 65535;

struct ManyRows {
  int near = 1, rounds = 1;
};

// The largest magnitudes of the slices of a round's rows. Three in turn: a round clears the one after it, which nobody
// has read since the barrier before.
struct LargestOfRound {
  std::uint32_t of[near_rows_most][exl3_slices_max];
};

__global__ void __launch_bounds__(32 * warps_most)
    rotate_many_kernel(const __grid_constant__ RotateJob job, ManyRows many) {
  // No early start of the next kernel but for one whose blocks have a multiprocessor each: others would gather on those
  // that become free first.
  wait_for_earlier_kernels();
  if (job.is_before_warpgroups()) let_next_kernel_start();
  __shared__ LargestOfRound largest[3];
  const int blocks = job.inputs / exl3_block, team = static_cast<int>(threadIdx.x) / rotation_team;
  const int member = static_cast<int>(threadIdx.x) % rotation_team, part = blockIdx.x;
  const bool is_team = team < many.near * blocks;
  const int near = is_team ? team / blocks : 0, block = is_team ? team % blocks : 0;  // the others repeat the first
  const int slice = slice_of_block(block, blocks, job.slices), column = block * exl3_block;
  const int first_row = static_cast<int>(blockIdx.y) * many.near * many.rounds;
  const int rounds = min(many.rounds, (job.rows - first_row + many.near - 1) / many.near);
  const auto row_of_round = [&](int round) { return min(first_row + round * many.near + near, job.rows - 1); };
  const auto load_row = [&](int row, TeamBlock& values) {
    values.load(job.x_of(part), job.source_of_row != nullptr ? job.source_of_row[row] : row, column, member);
  };
  std::uint32_t* first_largest = &largest[0].of[0][0];
  for (int i = threadIdx.x; i < near_rows_most * exl3_slices_max; i += blockDim.x) first_largest[i] = 0;
  __syncthreads();
  TeamBlock values, next;
  load_row(row_of_round(0), next);
  const void *scales = nullptr, *next_scales = job.suh_of(part, row_of_round(0));
  uint2 suh[rotation_pieces];
  for (int round = 0; round < rounds; ++round) {
    const int row = row_of_round(round);
    if (next_scales != scales) {
      scales = next_scales;
#pragma unroll
      for (int j = 0; j < rotation_pieces; ++j) suh[j] = load_scales(scales, column + TeamBlock::column(j, member));
    }
    values = next;
    if (round + 1 < rounds) {
      load_row(row_of_round(round + 1), next);
      next_scales = job.suh_of(part, row_of_round(round + 1));
    }
    values.scale(suh);
    values.transform(member);
    LargestOfRound &present = largest[round % 3], &cleared = largest[(round + 1) % 3];
    const std::uint32_t most = values.largest();
    if (member == 0) {
      atomicMax(&present.of[near][slice], most);
      cleared.of[near][slice] = 0;
    }
    __syncthreads();
    const int exponent = scale_exponent(present.of[near][slice]);
    const bool is_task = is_team && first_row + round * many.near + near < job.rows;
    const std::int64_t place = static_cast<std::int64_t>(part) * job.rows + row;
    values.store_as(job.rotated, place * job.inputs + column, exponent, member, is_task);
    if (is_task && member == 0 && block == exl3_slice_begin(job.inputs, job.slices, slice)) {
      job.rotated.undo[place * exl3_slices_max + slice] = power_of_two(-exponent);
    }
  }
}

// Rows of x that several matrices rotate, each once for all of them: a block has a row in registers and takes its uses
// one after the other. Read by uses, in the order of the matrices, a chunk's x would not stay in the second-level cache
// beside what is written.
constexpr int shared_uses_most = 32;
constexpr int rotated_uses_inputs_max = 32 * warps_most / rotation_team * exl3_block;

struct UsePlace {
  const void* suh;
  std::int32_t row;  // among the rotated rows
};

__global__ void __launch_bounds__(32 * warps_most) rotate_shared_rows_kernel(const __grid_constant__ RotateJob job) {
  wait_for_earlier_kernels();
  __shared__ std::uint32_t largest[shared_uses_most][exl3_slices_max];
  __shared__ UsePlace uses[shared_uses_most];
  const int blocks = job.inputs / exl3_block, thread = static_cast<int>(threadIdx.x), part = blockIdx.y;
  const bool is_team = thread / rotation_team < blocks;
  const int block = is_team ? thread / rotation_team : 0, member = thread % rotation_team;  // others repeat the first
  const int slice = slice_of_block(block, blocks, job.slices), column = block * exl3_block;
  TeamBlock values;
  values.load(job.x, blockIdx.x, column, member);
  for (int i = thread; i < job.slots; i += static_cast<int>(blockDim.x)) {
    const int row = job.row_of_use[blockIdx.x * job.slots + i];
    uses[i] = {job.suh_of(part, row), row};
  }
  for (int i = thread; i < job.slots * exl3_slices_max; i += static_cast<int>(blockDim.x)) largest[0][i] = 0;
  __syncthreads();
  uint2 suh[rotation_pieces], next[rotation_pieces];
  const auto load_suh = [&](int use) {
#pragma unroll
    for (int j = 0; j < rotation_pieces; ++j) {
      next[j] = load_scales(uses[use].suh, column + TeamBlock::column(j, member));
    }
  };
  load_suh(0);
  for (int use = 0; use < job.slots; ++use) {
#pragma unroll
    for (int j = 0; j < rotation_pieces; ++j) suh[j] = next[j];
    if (use + 1 < job.slots) load_suh(use + 1);
    TeamBlock own = values;
    own.scale(suh);
    own.transform(member);
    const std::uint32_t most = own.largest();
    if (member == 0) atomicMax(&largest[use][slice], most);
    __syncthreads();
    const std::int64_t place = static_cast<std::int64_t>(part) * job.rows + uses[use].row;
    own.store_as(job.rotated, place * job.inputs + column, scale_exponent(largest[use][slice]), member, is_team);
    if (is_team && member == 0 && block == exl3_slice_begin(job.inputs, job.slices, slice)) {
      job.rotated.undo[place * exl3_slices_max + slice] = power_of_two(-scale_exponent(largest[use][slice]));
    }
  }
}

cudaError_t launch_uses(cudaStream_t stream, const RotateJob& job) {
  const int threads = job.inputs / exl3_block * rotation_team;
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(job.rows / job.slots), static_cast<unsigned>(job.parts));
  shape.threads = (threads + 31) / 32 * 32;
  return launch_dependent(stream, shape, rotate_shared_rows_kernel, job);
}

cudaError_t launch_many(cudaStream_t stream, const RotateJob& job) {
  const int row_threads = job.inputs / exl3_block * rotation_team;
  ManyRows many;
  many.near = std::clamp(many_threads / row_threads, 1, near_rows_most);
  const int rounds_least = (job.rows + many.near * grid_y_most - 1) / (many.near * grid_y_most);
  many.rounds =
      std::clamp(job.rows * job.parts / (many.near * blocks_wanted), rounds_least, std::max(rounds_least, rounds_most));
  const int block_rows = many.near * many.rounds;
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(job.parts), static_cast<unsigned>((job.rows + block_rows - 1) / block_rows));
  shape.threads = (many.near * row_threads + 31) / 32 * 32;
  return launch_dependent(stream, shape, rotate_many_kernel, job, many);
}

cudaError_t launch(cudaStream_t stream, const RotateJob& job) {
  const bool is_many = job.rows * job.parts >= many_rows_least;
  const bool has_uses = job.row_of_use != nullptr && job.slots <= shared_uses_most;
  if (is_many && has_uses && job.inputs <= rotated_uses_inputs_max) return launch_uses(stream, job);
  if (is_many) return launch_many(stream, job);
  const int blocks = (job.inputs / exl3_block + job.slices - 1) / job.slices;
  LaunchShape shape;
  shape.grid =
      dim3(static_cast<unsigned>(job.rows), static_cast<unsigned>(job.slices), static_cast<unsigned>(job.parts));
  shape.threads = 32 * (blocks < warps_most ? blocks : warps_most);
  return launch_dependent(stream, shape, rotate_kernel, job);
}

}  // namespace

namespace {

cudaError_t rotate_members(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated rotated, int slices) {
  if (set.count < 1 || set.count > exl3_members_max || rows < 1) return cudaErrorInvalidValue;
  const Exl3Shape& shape = set.members[0].matrix.shape;
  RotateJob job;
  std::copy_n(set.members, set.count, job.members);
  job.rotated = rotated;
  job.inputs = shape.inputs;
  job.slices = slices;
  job.rows = rows;
  job.parts = set.count;
  return launch(stream, job);
}

}  // namespace

cudaError_t exl3_rotate_set(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated rotated) {
  return rotate_members(stream, set, rows, rotated, exl3_split_of_set(set.members[0].matrix.shape, set.count).slices);
}

cudaError_t exl3_rotate_pair(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated rotated) {
  return rotate_members(stream, set, rows, rotated, exl3_split_single(set.members[0].matrix.shape).slices);
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
  job.row_of_use = groups.row_of_use;
  job.slots = groups.slots;
  job.x = x;
  job.rotated = rotated;
  job.inputs = shape.inputs;
  job.slices = exl3_split_of_groups(shape).slices;
  job.rows = rows;
  job.parts = groups.second == nullptr ? 1 : 2;
  return launch(stream, job);
}

}  // namespace tandem::gpu::cuda
