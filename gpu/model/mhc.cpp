// Manifold hyper-connections: how a sublayer reads from and writes to the C residual streams.
//
// The mix that collapses the streams for a site was made at the site *before* it: coefficients of a site can be
// computed beside its sublayer, and using them at once gives fluent but wrong text.
#include "gpu/model/blocks.hpp"

namespace tandem::gpu {

HcMix mhc_coefficients(const StepContext& step, const Tensor& streams, const HyperConnection& weights,
                       const Tensor& pre) {
  const int mult = step.config().hc_mult;
  const std::int64_t rows = streams.rows;
  const HcMix mix{pre, step.workspace.f32(rows, mult), step.workspace.f32(rows, mult * mult)};
  step.ops().mhc_mix(streams, weights, step.config(), mix);
  return mix;
}

Tensor mhc_input(const StepContext& step, const Tensor& streams, const Tensor& pre, const DenseF32& norm) {
  const std::int64_t hidden = step.config().hidden;
  const Tensor input = step.workspace.f32(streams.rows, hidden);
  const Workspace::Scope scope(step.workspace);
  const Tensor collapsed = step.workspace.f32(streams.rows, hidden);
  step.ops().mhc_input(streams, pre, {&norm, step.config().norm_eps, step.rounds()}, collapsed, input);
  return input;
}

}  // namespace tandem::gpu
