// Quantises one matrix: scales and signs, rotation, best global scale, then LDLQ with the tile search from the last 16
// inputs to the first.
//
// After regularisation the rows of the rotated matrix have the same size, and the scale search finds the size at which
// the codebook fits best. LDLQ moves the error of every row of tiles into the targets of the rows before it, as the
// Hessian says (hessian.hpp). The result depends on the job alone, not on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/cpu/thread_pool.hpp"
#include "gpu/exl3/hessian.hpp"
#include "gpu/exl3/matrix.hpp"

namespace tandem::gpu::exl3 {

struct QuantiseJob {
  std::span<const float> weight;  // [in, out]; both sides multiples of 128
  std::int64_t out = 0;
  const Hessian* hessian = nullptr;  // of the inputs
  std::span<const float> signs_out;  // [out], +-1
  Form form;
};

struct Quantised {
  PackedMatrix matrix;
  float scale = 1;          // the global scale that was found
  double proxy_error = 0;   // tr(E^T Hr E) / tr(W^T Hr W), E the error in the rotated domain
  double weight_error = 0;  // |W - dequantised|^2 / |W|^2
};

Quantised quantise(const QuantiseJob& job, ThreadPool& pool);

// Mean square error of the nearest walks for unit Gaussian targets at the best scale, by bits 1 to 8: what a matrix
// without calibration loses, relative to its size.
double expected_error(Form form) noexcept;

}  // namespace tandem::gpu::exl3
