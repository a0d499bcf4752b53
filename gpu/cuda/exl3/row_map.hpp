// The map of rotated rows by which Hopper copies tiles of them into shared memory (StageBarrier::copy_tile).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/cuda/exl3/exl3.hpp"

namespace tandem::gpu::cuda {

struct RowTiles {
  std::int32_t inputs = 0;  // of a row
  std::int32_t rows = 0;    // of all members
};

// Tiles of 128 rows x 64 inputs of rows in the order of steps. Errors: cudaErrorInvalidValue for rows that are not
// 16-byte aligned, cudaErrorNotSupported if the driver knows no such maps.
cudaError_t map_rotated_rows(const Exl3Rotated& rotated, const RowTiles& tiles, CUtensorMap& map);

// Of the present device, at least 1.
unsigned multiprocessors();

}  // namespace tandem::gpu::cuda
