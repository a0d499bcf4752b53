// What becomes of rows between two products (contract: Ops::finish_rows), in one launch for several tensors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/kv_record.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

// One tensor; all pointers are the device's.
struct FinishJob {
  Tensor x, y;
  const float* norm = nullptr;  // null: none
  float eps = 0, factor = 1;
  bool round = true;
  bool quantises_x4 = false;
  int heads = 1, pairs = 0;  // no pairs: no rotation
  const std::int64_t* positions = nullptr;
  const float *cos = nullptr, *sin = nullptr;
  std::byte* const* places = nullptr;  // null: no records
  RecordFormat format = RecordFormat::f32;
};

inline constexpr int finish_jobs_max = 3;
inline constexpr std::int64_t finish_cols_max = 12256;  // a row must fit shared memory
struct FinishCall {
  FinishJob jobs[finish_jobs_max];
  int count = 0;
};
cudaError_t finish(cudaStream_t stream, const FinishCall& call);

}  // namespace tandem::gpu::cuda
