// Matrix: a Linear as kernels see it, and the linears over it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/linear.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

struct Matrix {
  const void* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t n = 0, k = 0;
  std::int64_t scale_cols = 0;  // ceil(k / 32)
  bool is_aligned = false;      // rows of W, of its scales and of x may be copied 16 and 4 bytes at a time
};

// Whether every row of W begins on 16 bytes and every row of its scales on 4, and K is a whole number of 16 lanes.
inline bool has_aligned_rows(const Linear& weight) {
  return weight.k % (weight.is_low_precision() ? 128 : 16) == 0;
}

// Returns the kernels' view of `weight`, whose buffers lie on the device, for inputs with the given address and stride.
inline Matrix matrix_of(const Linear& weight, const Tensor& x) {
  const bool is_aligned =
      has_aligned_rows(weight) && x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  return {weight.codes.data.get(),
          weight.scales.as<const std::uint8_t>(),
          weight.n,
          weight.k,
          (weight.k + 31) / 32,
          is_aligned};
}

// y = x W^T, rounded to bf16 if `round`; every format but exl3 (cudaErrorNotSupported).
cudaError_t multiply(cudaStream_t stream, const Tensor& x, const Linear& weight, bool round, const Tensor& y);

// to = the values that the Q8 codes of x stand for, groups of 32 columns (the last one may be shorter).
cudaError_t fake_q8(cudaStream_t stream, const Tensor& x, const Tensor& to);

}  // namespace tandem::gpu::cuda
