// Products with EXL3 weights: y = (((x o suh) BH) What BH) o svh, What never stored as a matrix.
//
// The unit of work is one Hadamard block of 128 outputs. Eight strips of 16 outputs, 512 inputs at a time, are decoded
// into the worker's cache and multiplied with up to 96 rows: a weight is decoded once a block of rows. The sum over the
// inputs has the order of simd/kernels.hpp, the transforms a fixed one, so a row's bits do not depend on the others.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cpu/context.hpp"
#include "gpu/cpu/product.hpp"
#include "gpu/linear.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

// FP16 scales of the inputs and of the outputs of an EXL3 weight.
inline const std::uint16_t* exl3_suh(const Linear& weight) noexcept {
  return weight.scales.as<const std::uint16_t>();
}
inline const std::uint16_t* exl3_svh(const Linear& weight) noexcept {
  return exl3_suh(weight) + exl3::padded_side(weight.k);
}

// One block of outputs of one weight, from inputs that are transformed already (transform_exl3_inputs): y[r][c] =
// output 128 * block + c of row r, unrounded.
void multiply_exl3_block(ProductScratch& scratch, RowList transformed, const Linear& weight, std::int64_t block,
                         float* y, std::int64_t y_stride);

// y = x W^T, rounded to bf16 if `round`; weight.format is exl3.
void cpu_exl3_linear(CpuContext& context, RowList x, const Linear& weight, bool round, const Tensor& y);

}  // namespace tandem::gpu
