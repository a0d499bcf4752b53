// EXL3 weights in this backend: their device form, and products of any number of rows through gpu/cuda/exl3.
#pragma once

#include <span>

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/linear.hpp"
#include "gpu/ops.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

// Brings the host codes of an EXL3 weight into the order that the kernels read, in a Buffer of their own.
void pack_exl3(Linear& weight);

// Returns the kernels' view of a packed weight that lies on the device.
Exl3Matrix exl3_matrix_of(const Linear& weight);
// Columns of `rows` as the kernels read and write them.
Exl3Rows exl3_rows_of(const Tensor& rows);
// Scratch memory for `rows` rotated rows of `inputs` channels.
Exl3Rotated exl3_rotated(CudaContext& context, std::int64_t rows, std::int64_t inputs);

// y = x W^T, rounded to bf16 if `round`. Activations are rounded to FP16 in the rotated domain: equal to the CPU
// backend within a relative 1e-3, not bit by bit.
// Linears of one kind and of the same number of rows, at most exl3_members_max, in one launch or two.
bool is_exl3_set(std::span<const LinearCall> calls);
void exl3_linears(CudaContext& context, std::span<const LinearCall> calls);
// Two of one kind and input whose outputs differ, together if they divide their inputs alike and one kernel takes the
// rows of both; else false and nothing done.
bool exl3_pair(CudaContext& context, std::span<const LinearCall> calls);
void exl3_linear(CudaContext& context, const Tensor& x, const Linear& weight, bool round, const Tensor& y);

}  // namespace tandem::gpu::cuda
