// Operations on single rows: norms, rounding, streams of the residual, rotary embedding, records, the Engram gate.
//
// Contracts, shapes and formulas: gpu/ops.hpp, the methods of the same name.
#pragma once

#include "gpu/cpu/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu {

void cpu_gather_rows(CpuContext& context, const Linear& table, std::span<const std::int32_t> ids, const Tensor& out);
void cpu_rmsnorm(CpuContext& context, const Tensor& x, const DenseF32& w, double eps, bool round, const Tensor& y);
void cpu_round_bf16(CpuContext& context, const Tensor& x);
void cpu_mean_streams(CpuContext& context, const Tensor& streams, int mult, bool round, const Tensor& out);

struct RopeCall {
  Tensor x;
  int heads = 0;
  std::span<const std::int64_t> positions;
  RopeView table;
  bool inverse = false;
  bool round = false;
};
void cpu_rope(CpuContext& context, const RopeCall& call);

void cpu_quantise_x4(CpuContext& context, const Tensor& x);
void cpu_write_window(CpuContext& context, const Tensor& x, std::span<const RecordRing> rings,
                      std::span<const std::int64_t> positions);
void cpu_write_entries(CpuContext& context, const Tensor& x, std::span<const PagedRecords> caches,
                       std::span<const std::int32_t> entries);

// The values of a record, vectorised; out has `n` floats.
void decode_record(RecordFormat format, const std::byte* record, int n, float* out);

struct PoolCall {
  Tensor ka, ga, kb, gb;
  bool round = false;
  Tensor z;
};
void cpu_pool_pair(CpuContext& context, const PoolCall& call);

struct EngramGateCall {
  Tensor streams, kv;
  const EngramWeights* weights = nullptr;
  const std::uint8_t* keep = nullptr;
  const ModelConfig* config = nullptr;
  bool round = false;
};
void cpu_engram_gate(CpuContext& context, const EngramGateCall& call);

}  // namespace tandem::gpu
