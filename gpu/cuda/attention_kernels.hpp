// Attention over window ring and selected entries (contract: Ops::attention).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/kv_record.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

// The keys of one query row; all pointers are the device's.
struct KeySource {
  const std::byte* ring = nullptr;
  std::int64_t ring_slots = 1;
  std::int64_t window_first = 0;
  std::int64_t window_count = 0;
  const std::byte* pool = nullptr;
  const std::int32_t* pages = nullptr;
  const std::int32_t* selected = nullptr;  // ends at the first -1
  std::int64_t selected_most = 0;
};

// Angles of all rows; pairs == 0: nothing is rotated.
struct RowAngles {
  const std::int64_t* positions = nullptr;
  const float *cos = nullptr, *sin = nullptr;
  int pairs = 0;
};

struct AttendCall {
  Tensor q;
  const KeySource* rows;
  const float* sink;
  int heads, head_dim;
  RecordFormat window_format, entry_format;
  bool round;
  Tensor out;
  // For matrix units: how q turns on the way in and out turns back; for few rows besides: no row has more keys, and a
  // place for its scores.
  RowAngles angles;
  std::int64_t keys_most;
  Tensor scores;      // [T * heads, keys_most]
  bool begins_early;  // for few rows: all keys were there before the kernel in front began
};

inline constexpr int attention_dim_max = 512;

// Whether a call goes to the matrix units: 512 channels, quantised records, bf16 rounding. Never a matter of its rows.
// Its results are those of attention_tile.cuh instead of the CPU backend's.
bool uses_matrices(const AttendCall& call);
// Any number of rows, a block each.
cudaError_t attend_matrix(cudaStream_t stream, const AttendCall& call);
// Few rows: many blocks a row, scores first, then values. The bits of `attend_matrix`.
bool is_split(const AttendCall& call);
cudaError_t attend_split(cudaStream_t stream, const AttendCall& call);

// All others, in FP32 and without rotation: the bits of the CPU backend.
// Errors: cudaErrorNotSupported beyond attention_dim_max, or where a block of keys does not fit shared memory.
cudaError_t attend(cudaStream_t stream, const AttendCall& call);

}  // namespace tandem::gpu::cuda
