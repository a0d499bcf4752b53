// Drawing tokens from rows of logits (contract: Ops::draw_tokens).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/sampling/logit_edit.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

// One row; all pointers are the device's.
struct DrawJob {
  std::int64_t row = 0;              // of the logits
  const LogitEdit* edits = nullptr;  // sorted by token
  std::int32_t edit_count = 0;
  std::int32_t top_k = 0;  // 0: off
  float temperature = 0, top_p = 1, min_p = 0;
  double u = 0;  // the row's random number
};

struct DrawCall {
  Tensor logits;
  const DrawJob* jobs = nullptr;   // [work.rows]
  Tensor work;                     // [rows, vocabulary], scratch
  std::int32_t* tokens = nullptr;  // [rows]; -1: refused
};
cudaError_t draw(cudaStream_t stream, const DrawCall& call);

}  // namespace tandem::gpu::cuda
