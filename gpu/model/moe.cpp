// Mixture of experts: router, routed experts and the shared expert as one sum.
#include <algorithm>

#include "gpu/model/blocks.hpp"
#include "gpu/model/probe_views.hpp"

namespace tandem::gpu {
namespace {

// First row after `first` that is of the other kind (image or text).
std::int32_t run_end(const StepContext& step, std::int32_t first, bool image) {
  std::int32_t row = first;
  while (row < step.rows.rows() && step.rows.is_image(row) == image) ++row;
  return row;
}

// (M1)-(M3) Text rows select with `bias`, image rows with `bias_vl`; the bias never enters the weights.
void route_rows(const StepContext& step, const MoeWeights& weights, MoeShape shape, const Tensor& input,
                const Routing& routing) {
  const ModelConfig& config = step.config();
  const std::int32_t rows = step.rows.rows();
  const bool two_kinds = shape.image_bias && !weights.bias_vl.empty();
  RouterMargins margins(step, weights.gate, shape.experts_per_token);
  for (std::int32_t first = 0; first < rows;) {
    const bool image = two_kinds && step.rows.is_image(first);
    const std::int32_t count = (two_kinds ? run_end(step, first, image) : rows) - first;
    const float* bias = image ? weights.bias_vl.data() : weights.bias.data();
    step.ops().route(input.slice_rows(first, count), weights.gate, bias, config.gate_temperature, config.routed_scaling,
                     {routing.ids.slice_rows(first, count), routing.weights.slice_rows(first, count)});
    margins.add(input.slice_rows(first, count), bias);
    first += count;
  }
  margins.show();
  step.show("router_expert", routing.ids, {rows, shape.experts_per_token});
  step.show("router_weight", routing.weights, {rows, shape.experts_per_token});
}

}  // namespace

Result<Tensor> mixture_of_experts(const StepContext& step, const MoeWeights& weights, MoeShape shape,
                                  const Tensor& input) {
  const Numerics& numerics = step.model.numerics;
  const ModelConfig& config = step.config();
  const PartialLinear& down = weights.experts.front().w2;
  const auto slices = numerics.fp32_partials ? static_cast<std::int64_t>(down.slices.size()) : 1;
  const Routing routing{step.workspace.i32(input.rows, shape.experts_per_token),
                        step.workspace.f32(input.rows, shape.experts_per_token)};
  const Tensor out = step.workspace.f32(slices * input.rows, down.n);
  const MoeCall call{input, routing, &weights, config.swiglu_limit, numerics, out};
  step.ops().begin_moe(call);
  route_rows(step, weights, shape, input, routing);
  step.ops().moe(call);
  if (!numerics.fp32_partials) return out;
  return gather_partials(step, out);
}

}  // namespace tandem::gpu
