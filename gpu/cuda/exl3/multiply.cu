// Host side of the products: checks the arguments, chooses grid, cluster and kernel.
#include "gpu/cuda/exl3/product.hpp"
#include "gpu/cuda/exl3/split.hpp"

namespace tandem::gpu::cuda {
namespace {

using LaunchProduct = cudaError_t (*)(cudaStream_t, const LaunchShape&, const ProductJob&);

constexpr LaunchProduct launch_of_bits[exl3_bits_max] = {launch_product_k1, launch_product_k2, launch_product_k3,
                                                         launch_product_k4, launch_product_k5, launch_product_k6,
                                                         launch_product_k7, launch_product_k8};

bool are_rows_valid(int rows) {
  return rows >= 1 && rows <= exl3_rows_max;
}

cudaError_t launch(cudaStream_t stream, const Exl3Shape& shape, const Exl3Split& split, ProductJob job, int matrices) {
  job.inputs = shape.inputs;
  job.slices = split.slices;
  job.warps = split.warps;
  job.codebook = shape.codebook;
  LaunchShape launch_shape;  // threads and memory: the kernel knows
  launch_shape.grid =
      dim3(static_cast<unsigned>(shape.outputs / exl3_block * split.slices), static_cast<unsigned>(matrices));
  launch_shape.cluster = split.slices;
  return launch_of_bits[shape.bits - 1](stream, launch_shape, job);
}

// Whether one launch does it all. Every column block then repeats the rotation of its slice: at most one Hadamard block
// a warp, or the repetition costs more than a launch.
bool is_one_launch(const Exl3Shape& shape, const Exl3Split& split, int rows) {
  const int inputs = shape.inputs / exl3_block;
  const int blocks = (inputs + split.slices - 1) / split.slices, warps = 2 * split.warps;
  return rows <= rotation_rows_max && blocks * exl3_block <= rotated_inputs_max && rows * blocks <= warps;
}

}  // namespace

cudaError_t exl3_multiply_rotated(cudaStream_t stream, const Exl3Matrix& matrix, Exl3Rotated rotated, const Exl3Rows& y,
                                  int rows) {
  if (!exl3_accepts(matrix.shape) || !are_rows_valid(rows)) return cudaErrorInvalidValue;
  ProductJob job;
  job.matrix = matrix;
  job.rotated = rotated;
  job.y = y;
  job.rows_most = rows;
  return launch(stream, matrix.shape, exl3_split_single(matrix.shape), job, 1);
}

cudaError_t exl3_multiply(cudaStream_t stream, const Exl3Matrix& matrix, const Exl3Rows& x, const Exl3Rows& y, int rows,
                          Exl3Rotated scratch) {
  if (!exl3_accepts(matrix.shape) || !are_rows_valid(rows)) return cudaErrorInvalidValue;
  const Exl3Split split = exl3_split_single(matrix.shape);
  if (!is_one_launch(matrix.shape, split, rows)) {
    const cudaError_t error = exl3_rotate(stream, matrix, x, rows, scratch);
    return error != cudaSuccess ? error : exl3_multiply_rotated(stream, matrix, scratch, y, rows);
  }
  ProductJob job;
  job.matrix = matrix;
  job.rotates = true;
  job.x = x;
  job.y = y;
  job.rows_most = rows;
  return launch(stream, matrix.shape, split, job, 1);
}

// Most groups of a step have few rows: those of up to 8 go through the kernel for 8, the rest through a second launch.
cudaError_t exl3_multiply_groups(cudaStream_t stream, const Exl3Shape& shape, const Exl3Groups& groups,
                                 Exl3Rotated rotated, const Exl3Rows& y) {
  if (!exl3_accepts(shape) || !are_rows_valid(groups.rows_most)) return cudaErrorInvalidValue;
  if (groups.table == nullptr || groups.groups == nullptr || groups.count < 1) return cudaErrorInvalidValue;
  constexpr int few = 8;
  const Exl3Split split = exl3_split_of_groups(shape);
  ProductJob job;
  job.table = groups.table;
  job.groups = groups.groups;
  job.rotated = rotated;
  job.y = y;
  job.rows_most = groups.rows_most < few ? groups.rows_most : few;
  const cudaError_t error = launch(stream, shape, split, job, groups.count);
  if (error != cudaSuccess || groups.rows_most <= few) return error;
  job.rows_least = few + 1;
  job.rows_most = groups.rows_most;
  return launch(stream, shape, split, job, groups.count);
}

}  // namespace tandem::gpu::cuda
