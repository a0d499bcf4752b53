// EXL3 weights in this backend: their device form, and products of any number of rows through gpu/cuda/exl3.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/exl3/exl3.hpp"
#include "gpu/linear.hpp"
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
void exl3_linear(CudaContext& context, const Tensor& x, const Linear& weight, bool round, const Tensor& y);

}  // namespace tandem::gpu::cuda
