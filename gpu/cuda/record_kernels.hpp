// Kernels that write records and fake-quantise rows, and the device form of a row's keys.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/kv_record.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

// Replaces x by the values of its X4 codes, groups of 32 columns; cols is a multiple of 32.
cudaError_t fake_x4(cudaStream_t stream, const Tensor& x);

// Writes row t of x as the record at places[t].
struct WriteCall {
  Tensor x;
  std::byte* const* places;  // on the device
  RecordFormat format;
};
cudaError_t write_records(cudaStream_t stream, const WriteCall& call);

}  // namespace tandem::gpu::cuda
