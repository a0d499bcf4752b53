// The operations that take more than one launch: contracts are those of the methods of Ops with the same names.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::cuda {

// Returns x, or its Q8 copy in the scratch memory.
Tensor linear_input(CudaContext& context, const Tensor& x, bool q8);

void linear(CudaContext& context, const Tensor& x, const Linear& weight, LinearMode mode, const Tensor& y);
void linears(CudaContext& context, std::span<const LinearCall> calls);
void partial_linear(CudaContext& context, const Tensor& x, const PartialLinear& weight, LinearMode mode,
                    const Tensor& y);
void mhc_mix(CudaContext& context, const Tensor& streams, const HyperConnection& hc, const ModelConfig& config,
             const HcMix& out);
// `angles` may be null: then q comes rotated.
void attention(CudaContext& context, const AttentionCall& call, const AttentionAngles* angles);
// Whether one launch finishes them.
bool is_finish(std::span<const RowFinish> all);
void finish_rows(CudaContext& context, std::span<const RowFinish> all);
void index_select(CudaContext& context, const IndexCall& call);

struct RouteCall {
  Tensor x;
  const Linear* gate = nullptr;
  const float* bias = nullptr;
  double temperature = 1;
  double scaling = 1;
  Routing out;
};
void route(CudaContext& context, const RouteCall& call);
// As Ops::draw_tokens; a row whose list of edits is longer than half of the staging area has no token (-1) either, and
// is drawn by the caller like one that was refused.
Result<void> draw_tokens(CudaContext& context, const Tensor& logits, std::span<const DrawRow> rows,
                         std::span<TokenId> tokens);
// Builds the table of an expert layer's matrices.
void prepare_experts(CudaContext& context, MoeWeights& weights);
void moe(CudaContext& context, const MoeCall& call);
void begin_moe(CudaContext& context, const MoeCall& call);

}  // namespace tandem::gpu::cuda
