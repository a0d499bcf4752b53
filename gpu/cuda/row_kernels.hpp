// Kernels over rows that need no matrix: copies, sums, scaling, norms, rotation, pooling, the Engram gate.
//
// Every function launches on `stream` and returns the launch's status. Tensors are f32 in device memory; contracts and
// formulas are those of the methods of gpu/ops.hpp with the same names.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

struct Move {  // layout of gpu::RowMove
  const float* from;
  float* to;
};
cudaError_t move_rows(cudaStream_t stream, const Move* moves, std::int64_t count, std::int64_t cols);
cudaError_t scale(cudaStream_t stream, const Tensor& x, float factor, bool round);
cudaError_t sum_blocks(cudaStream_t stream, const Tensor& parts, bool round, const Tensor& sum);
cudaError_t round_bf16(cudaStream_t stream, const Tensor& x);
// out = mean of the `mult` streams side by side in each row.
cudaError_t mean_streams(cudaStream_t stream, const Tensor& streams, int mult, bool round, const Tensor& out);
// table: bf16 rows of out.cols values.
cudaError_t gather_rows(cudaStream_t stream, const std::uint16_t* table, const std::int32_t* ids, const Tensor& out);

struct NormCall {
  Tensor x;
  const float* weight;
  float eps;
  bool round;
  Tensor y;
};
cudaError_t rmsnorm(cudaStream_t stream, const NormCall& call);

// Values of a row that a block may keep in shared memory: 48 KB, less 128 bytes for what kernels hold beside it.
inline constexpr std::int64_t near_row_most = 12256;

// y = rmsnorm(u), u = sum_j pre_j S_j rounded: collapse and norm at once.
struct InputCall {
  Tensor streams, pre;
  const float* weight;
  float eps;
  bool round;
  Tensor y;
};
bool is_joint_input(const InputCall& call);  // four streams, rows that fit and are aligned
cudaError_t collapse_norm(cudaStream_t stream, const InputCall& call);

struct RotationCall {
  Tensor x;
  int heads;
  const std::int64_t* positions;
  const float* cos;
  const float* sin;
  int pairs;
  bool inverse;
  bool round;
};
cudaError_t rotate(cudaStream_t stream, const RotationCall& call);

struct PairCall {
  Tensor key_a, gate_a, key_b, gate_b;
  bool round;
  Tensor out;
};
cudaError_t pool_pair(cudaStream_t stream, const PairCall& call);

struct GateCall {
  Tensor streams, kv;
  const float *q_weight, *k_weight;  // [mult, hidden]
  const std::uint8_t* keep;
  int mult;
  float eps;
  bool round;
};
cudaError_t engram_gate(cudaStream_t stream, const GateCall& call);

struct BestCall {
  Tensor a, b, sums;
  float* values;          // [rows]
  std::int32_t* columns;  // [rows]
};
cudaError_t best_of_sum(cudaStream_t stream, const BestCall& call);

}  // namespace tandem::gpu::cuda
