// Host side of the products: checks the arguments, chooses grid, cluster and kernel.
#include <algorithm>

#include "gpu/cuda/exl3/product.hpp"
#include "gpu/cuda/exl3/split.hpp"

namespace tandem::gpu::cuda {
namespace {

using LaunchProduct = cudaError_t (*)(cudaStream_t, const LaunchShape&, const ProductJob&);

constexpr LaunchProduct launch_of_bits[exl3_bits_max] = {launch_product_k1, launch_product_k2, launch_product_k3,
                                                         launch_product_k4, launch_product_k5, launch_product_k6,
                                                         launch_product_k7, launch_product_k8};

bool are_rows_valid(int rows, int most) {
  return rows >= 1 && rows <= most;
}

int pieces_of(int rows, int piece) {
  return (rows + piece - 1) / piece;
}

// Hadamard blocks of the longest slice.
int blocks_of_slice(const Exl3Shape& shape, const Exl3Split& split) {
  return pieces_of(shape.inputs / exl3_block, split.slices);
}

// How many matrices a launch has: members or groups; tables of groups or pieces of the members' rows.
struct Matrices {
  int count = 1, depth = 1;
};

// Blocks of slices, or with job.block_rows blocks of rows, of every matrix.
cudaError_t launch(cudaStream_t stream, const Exl3Shape& shape, const Exl3Split& split, ProductJob job,
                   Matrices matrices) {
  job.inputs = shape.inputs;
  job.slices = split.slices;
  job.warps = split.warps;
  job.codebook = shape.codebook;
  job.column_blocks = shape.outputs / exl3_block;
  const int parts = job.block_rows > 0 ? pieces_of(job.rows_most, job.block_rows) : split.slices;
  LaunchShape launch_shape;  // threads and memory: the kernel knows
  launch_shape.grid = dim3(static_cast<unsigned>(job.column_blocks * parts), static_cast<unsigned>(matrices.count),
                           static_cast<unsigned>(matrices.depth));
  launch_shape.cluster = job.block_rows > 0 ? 1 : split.slices;
  return launch_of_bits[shape.bits - 1](stream, launch_shape, job);
}

// Groups whose blocks walk through all slices. The last places of a list are empty where matrices fill whole groups:
// blocks look for a second group there.
cudaError_t launch_walks(cudaStream_t stream, const Exl3Shape& shape, const Exl3Split& split, ProductJob job,
                         Matrices matrices) {
  if (!has_warpgroups || shape.codebook != Exl3Codebook::mul1) return cudaErrorNotSupported;
  job.inputs = shape.inputs;
  job.slices = split.slices;
  job.warps = split.warps;
  job.codebook = shape.codebook;
  job.column_blocks = shape.outputs / exl3_block;
  job.rows_most = exl3_rows_max;
  const int seekers = std::max(1, matrices.count - job.table_rows / exl3_rows_max);
  LaunchShape launch_shape;
  launch_shape.grid = dim3(static_cast<unsigned>(job.column_blocks), static_cast<unsigned>(seekers),
                           static_cast<unsigned>(matrices.depth));
  return launch_of_bits[shape.bits - 1](stream, launch_shape, job);
}

// Whether blocks of whole chunks are enough for a card; else slices must be divided too. Bits do not depend on it.
// 72: about the blocks that a Hopper card needs to be faster so, by the counts in product_chunk.cuh.
bool fills_card(const Exl3Shape& shape, int count, int rows) {
  constexpr int blocks_least = 72;
  return shape.outputs / exl3_block * count * pieces_of(rows, exl3_block_rows(shape)) >= blocks_least;
}

// The same for the blocks of warpgroups: up to a card full of them take the time of one, that of few rows by the kernel
// of a step grows with every 64 rows.
bool fills_warpgroups(const Exl3Shape& shape, int count, int rows) {
  constexpr int blocks_least = 24;
  return shape.outputs / exl3_block * count * pieces_of(rows, chunk_rows_large) >= blocks_least;
}

// Whether one launch does it all. Every column block then repeats the rotation of its slice: at most one Hadamard block
// a warp, or the repetition costs more than a launch.
bool is_one_launch(const Exl3Shape& shape, const Exl3Split& split, int rows) {
  const int inputs = shape.inputs / exl3_block;
  const int blocks = (inputs + split.slices - 1) / split.slices, warps = 2 * split.warps;
  return rows <= rotation_rows_max && blocks * exl3_block <= rotated_inputs_max && rows * blocks <= warps;
}

bool is_one_kind(const Exl3Set& set) {
  if (set.count < 1 || set.count > exl3_members_max) return false;
  const Exl3Shape& shape = set.members[0].matrix.shape;
  for (int i = 0; i < set.count; ++i) {
    const Exl3Shape& other = set.members[i].matrix.shape;
    if (other.inputs != shape.inputs || other.outputs != shape.outputs || other.bits != shape.bits ||
        other.codebook != shape.codebook) {
      return false;
    }
  }
  return exl3_accepts(shape);
}

// Groups of many rows are few, and a block that finds nothing to do still takes its time: some two blocks a
// multiprocessor look for them.
Matrices few_seekers(const Exl3Shape& shape, Matrices matrices) {
  constexpr int blocks = 264;
  const int seekers = blocks / (shape.outputs / exl3_block * matrices.depth);
  return {std::clamp(seekers, 1, matrices.count), matrices.depth};
}

// Whether the two members, of one input and kind, divide their inputs alike, and one kernel takes so many rows of both:
// of a chunk that of warpgroups, where one of them alone would go there.
bool is_joint_pair(const Exl3Set& set, int rows) {
  if (set.count != 2 || !are_rows_valid(rows, exl3_chunk_rows_max)) return false;
  const Exl3Shape &a = set.members[0].matrix.shape, &b = set.members[1].matrix.shape;
  if (!exl3_accepts(a) || !exl3_accepts(b)) return false;
  if (a.inputs != b.inputs || a.bits != b.bits || a.codebook != b.codebook) return false;
  const Exl3Split split = exl3_split_single(a), other = exl3_split_single(b);
  if (split.slices != other.slices || split.warps != other.warps) return false;
  return rows <= exl3_pair_rows_few || exl3_order_of(a, 1, rows) == Exl3Order::steps ||
         exl3_order_of(b, 1, rows) == Exl3Order::steps;
}

ProductJob job_of_rotated(const Exl3Set& set, Exl3Rotated rotated, int rows) {
  ProductJob job;
  std::copy_n(set.members, set.count, job.members);
  job.rotated = rotated;
  job.rows_most = rows;
  return job;
}

cudaError_t multiply_blocks(cudaStream_t stream, const Exl3Set& set, Exl3Rotated rotated, int rows, int block_rows) {
  const Exl3Shape& shape = set.members[0].matrix.shape;
  ProductJob job = job_of_rotated(set, rotated, rows);
  job.block_rows = block_rows;
  return launch(stream, shape, exl3_split_of_set(shape, set.count), job, {set.count, 1});
}

// Few rows: one piece. Many: the same kernel for every 64 rows, or one for chunks.
cudaError_t multiply_rotated(cudaStream_t stream, const Exl3Set& set, Exl3Rotated rotated, int rows) {
  const Exl3Shape& shape = set.members[0].matrix.shape;
  if (rotated.order == Exl3Order::steps) {
    if (!exl3_takes_steps(shape)) return cudaErrorInvalidValue;
    return multiply_blocks(stream, set, rotated, rows, chunk_rows_large);
  }
  if (rows > exl3_rows_max && fills_card(shape, set.count, rows)) {
    return multiply_blocks(stream, set, rotated, rows, exl3_block_rows(shape));
  }
  return launch(stream, shape, exl3_split_of_set(shape, set.count), job_of_rotated(set, rotated, rows),
                {set.count, pieces_of(rows, exl3_rows_max)});
}

}  // namespace

cudaError_t exl3_multiply_set(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated scratch) {
  if (!is_one_kind(set) || !are_rows_valid(rows, exl3_chunk_rows_max)) return cudaErrorInvalidValue;
  const Exl3Shape& shape = set.members[0].matrix.shape;
  const Exl3Split split = exl3_split_of_set(shape, set.count);
  if (!is_one_launch(shape, split, rows)) {
    scratch.order = exl3_order_of(shape, set.count, rows);
    const cudaError_t error = exl3_rotate_set(stream, set, rows, scratch);
    return error != cudaSuccess ? error : multiply_rotated(stream, set, scratch, rows);
  }
  ProductJob job;
  std::copy_n(set.members, set.count, job.members);
  job.rotates = true;
  job.rows_most = rows;
  return launch(stream, shape, split, job, {set.count, 1});
}

bool exl3_accepts_pair(const Exl3Set& set, int rows) {
  return is_joint_pair(set, rows);
}

cudaError_t exl3_multiply_pair(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated scratch) {
  if (!is_joint_pair(set, rows)) return cudaErrorInvalidValue;
  Exl3Shape wide = set.members[0].matrix.shape;
  const Exl3Split split = exl3_split_single(wide);
  ProductJob job;
  std::copy_n(set.members, set.count, job.members);
  job.rotates = is_one_launch(wide, split, rows);
  job.rows_most = rows;
  job.member_blocks = wide.outputs / exl3_block;
  if (rows > exl3_pair_rows_few) {
    scratch.order = Exl3Order::steps;
    job.block_rows = chunk_rows_large;
  }
  if (!job.rotates) {
    const cudaError_t error = exl3_rotate_pair(stream, set, rows, scratch);
    if (error != cudaSuccess) return error;
    job.rotated = scratch;
  }
  wide.outputs += set.members[1].matrix.shape.outputs;
  return launch(stream, wide, split, job, {1, 1});
}

cudaError_t exl3_multiply(cudaStream_t stream, const Exl3Matrix& matrix, const Exl3Rows& x, const Exl3Rows& y, int rows,
                          Exl3Rotated scratch) {
  Exl3Set set;
  set.members[0] = {matrix, x, y};
  set.count = 1;
  return exl3_multiply_set(stream, set, rows, scratch);
}

cudaError_t exl3_multiply_rotated(cudaStream_t stream, const Exl3Matrix& matrix, Exl3Rotated rotated, const Exl3Rows& y,
                                  int rows) {
  if (!exl3_accepts(matrix.shape) || !are_rows_valid(rows, exl3_chunk_rows_max)) return cudaErrorInvalidValue;
  Exl3Set set;
  set.members[0] = {matrix, {}, y};
  set.count = 1;
  return multiply_rotated(stream, set, rotated, rows);
}

bool exl3_takes_steps(const Exl3Shape& shape) {
  return has_warpgroups && exl3_accepts(shape) && shape.codebook == Exl3Codebook::mul1;
}

Exl3Order exl3_order_of(const Exl3Shape& shape, int count, int rows) {
  const bool is_many = rows > exl3_rows_max && fills_warpgroups(shape, count, rows);
  return exl3_takes_steps(shape) && is_many ? Exl3Order::steps : Exl3Order::lanes;
}

int exl3_block_rows(const Exl3Shape& shape) {
  return has_large_chunks && shape.codebook == Exl3Codebook::mul1 ? chunk_rows_large : chunk_rows_small;
}

cudaError_t exl3_multiply_blocks(cudaStream_t stream, const Exl3Set& set, Exl3Rotated rotated, int rows,
                                 int block_rows) {
  if (!is_one_kind(set) || !are_rows_valid(rows, exl3_chunk_rows_max)) return cudaErrorInvalidValue;
  const Exl3Shape& shape = set.members[0].matrix.shape;
  if (block_rows != chunk_rows_small && block_rows != exl3_block_rows(shape)) return cudaErrorInvalidValue;
  if (rotated.order == Exl3Order::steps && (block_rows != chunk_rows_large || !exl3_takes_steps(shape))) {
    return cudaErrorInvalidValue;
  }
  return multiply_blocks(stream, set, rotated, rows, block_rows);
}

Exl3Order exl3_group_order(const Exl3Shape& shape, int rows) {
  constexpr int rows_least = 2048;
  const bool is_chunk = rows >= rows_least && shape.codebook == Exl3Codebook::mul1;
  return has_warpgroups && is_chunk ? Exl3Order::steps : Exl3Order::lanes;
}

// Groups of up to 8 rows, of up to 64 and of more are launches of their own: few groups of a step have more than 8, and
// only a chunk has more than 64. Rows in the order of steps have one launch.
cudaError_t exl3_multiply_groups(cudaStream_t stream, const Exl3Shape& shape, const Exl3Groups& groups,
                                 Exl3Rotated rotated, const Exl3Products& products, int rows) {
  if (!exl3_accepts(shape) || !are_rows_valid(groups.rows_most, exl3_group_rows(rotated.order))) {
    return cudaErrorInvalidValue;
  }
  if (groups.table == nullptr || groups.groups == nullptr || groups.count < 1) return cudaErrorInvalidValue;
  constexpr int few = 8;
  const Exl3Split split = exl3_split_of_groups(shape);
  const Matrices matrices{groups.count, groups.second == nullptr ? 1 : 2};
  ProductJob job;
  job.tables[0] = groups.table;
  job.tables[1] = groups.second;
  job.groups = groups.groups;
  job.group_count = groups.count;
  job.rotated = rotated;
  job.y[0] = products.y;
  job.y[1] = products.second_y;
  job.table_rows = rows;
  if (rotated.order == Exl3Order::steps) return launch_walks(stream, shape, split, job, matrices);
  job.rows_most = std::min(groups.rows_most, few);
  cudaError_t error = launch(stream, shape, split, job, matrices);
  const int bounds[] = {few, exl3_rows_max, exl3_group_rows_max};
  for (int i = 1; i < 3 && error == cudaSuccess && groups.rows_most > bounds[i - 1]; ++i) {
    job.rows_least = bounds[i - 1] + 1;
    job.rows_most = std::min(groups.rows_most, bounds[i]);
    job.block_rows = i == 1 ? 0 : exl3_block_rows(shape);
    error = launch(stream, shape, split, job, i == 1 ? matrices : few_seekers(shape, matrices));
  }
  return error;
}

cudaError_t exl3_multiply_sorted(cudaStream_t stream, const Exl3Shape& shape, const Exl3Uses& uses, Exl3Rotated rotated,
                                 const Exl3Products& products) {
  if (!exl3_accepts(shape) || !are_rows_valid(uses.count, exl3_sorted_uses_most)) return cudaErrorInvalidValue;
  if (uses.table == nullptr || uses.ids == nullptr) return cudaErrorInvalidValue;
  ProductJob job;
  job.tables[0] = uses.table;
  job.tables[1] = uses.second;
  job.uses = uses;
  job.rotated = rotated;
  job.y[0] = products.y;
  job.y[1] = products.second_y;
  job.table_rows = uses.count;
  job.rows_most = sorted_rows_most;
  return launch(stream, shape, exl3_split_of_groups(shape), job, {uses.count, uses.second == nullptr ? 1 : 2});
}

bool exl3_accepts_uses(const Exl3Shape& shape, int rows, int slots) {
  if (!exl3_accepts(shape) || shape.codebook != Exl3Codebook::mul1) return false;
  return are_rows_valid(rows, exl3_use_rows_max) && are_rows_valid(rows * slots, uses_max) &&
         blocks_of_slice(shape, exl3_split_of_groups(shape)) <= use_blocks_max;
}

cudaError_t exl3_multiply_uses(cudaStream_t stream, const Exl3Shape& shape, const Exl3Uses& uses,
                               const Exl3Products& products) {
  if (uses.table == nullptr || uses.ids == nullptr || uses.count < 1 || uses.slots < 1) return cudaErrorInvalidValue;
  const int rows = uses.count / uses.slots;
  if (!exl3_accepts_uses(shape, rows, uses.slots)) return cudaErrorInvalidValue;
  constexpr int bank_shift = 32;  // fp16 values
  const Exl3Split split = exl3_split_of_groups(shape);
  ProductJob job;
  job.tables[0] = uses.table;
  job.tables[1] = uses.second;
  job.uses = uses;
  job.y[0] = products.y;
  job.y[1] = products.second_y;
  job.rows_most = rows;
  job.row_stride = blocks_of_slice(shape, split) * exl3_block + bank_shift;
  return launch(stream, shape, split, job, {uses.count, uses.second == nullptr ? 1 : 2});
}

}  // namespace tandem::gpu::cuda
