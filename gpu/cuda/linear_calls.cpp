// Linears, the mHC mix and the router: a product, and what is done with it.
#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/chain_product.hpp"
#include "gpu/cuda/exl3_calls.hpp"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/matrix.hpp"
#include "gpu/cuda/mhc_kernels.hpp"

namespace tandem::gpu::cuda {
namespace {

void product(CudaContext& context, const Tensor& x, const Linear& weight, bool round, const Tensor& y) {
  if (weight.format == WeightFormat::exl3) return exl3_linear(context, x, weight, round, y);
  if (is_chain(x, weight)) {
    context.run("chain", chain_product, ChainCall{x, matrix_of(weight, x), weight.format, round, y, {}});
  } else {
    context.run("linear", multiply, x, weight, round, y);
  }
}

}  // namespace

Tensor linear_input(CudaContext& context, const Tensor& x, bool q8) {
  if (!q8) return x;
  const Tensor copy = context.scratch().f32(x.rows, x.cols);
  context.run("q8", fake_q8, x, copy);
  return copy;
}

void linear(CudaContext& context, const Tensor& x, const Linear& weight, LinearMode mode, const Tensor& y) {
  if (x.rows == 0 || weight.empty()) return;
  const Workspace::Scope scope(context.scratch());
  product(context, linear_input(context, x, mode.q8 && weight.is_low_precision()), weight, mode.round_output, y);
}

namespace {

// Of two matrices that share no launch the second one goes beside the first, unless both are beside something.
void two_linears(CudaContext& context, const LinearCall& first, const LinearCall& second) {
  constexpr int side = static_cast<int>(Ops::Side::branch);
  const bool forks = context.stream.here() < 0;
  if (forks) context.stream.enter_side(side);
  linear(context, second.x, *second.weight, second.mode, second.y);
  if (forks) context.stream.leave_side();
  linear(context, first.x, *first.weight, first.mode, first.y);
  if (forks) context.stream.join(side);
}

}  // namespace

void linears(CudaContext& context, std::span<const LinearCall> calls) {
  if (calls.empty() || calls.front().x.rows == 0) return;
  if (is_exl3_set(calls)) return exl3_linears(context, calls);
  if (exl3_pair(context, calls)) return;
  if (calls.size() == 2) return two_linears(context, calls[0], calls[1]);
  for (const LinearCall& call : calls) linear(context, call.x, *call.weight, call.mode, call.y);
}

void partial_linear(CudaContext& context, const Tensor& x, const PartialLinear& weight, LinearMode mode,
                    const Tensor& y) {
  if (x.rows == 0 || weight.slices.empty()) return;
  const Workspace::Scope scope(context.scratch());
  const Tensor input = linear_input(context, x, mode.q8 && weight.slices.front().is_low_precision());
  std::int64_t row = 0, column = 0;
  for (const Linear& slice : weight.slices) {
    product(context, input.slice_cols(column, slice.k), slice, false, y.slice_rows(row, x.rows));
    row += x.rows;
    column += slice.k;
  }
}

void mhc_mix(CudaContext& context, const Tensor& streams, const HyperConnection& hc, const ModelConfig& config,
             const HcMix& out) {
  if (streams.rows == 0) return;
  const Workspace::Scope scope(context.scratch());
  Linear fn;
  fn.format = WeightFormat::f32;
  fn.n = config.mix_width();
  fn.k = streams.cols;
  fn.codes = hc.fn.values;
  const Tensor raw = context.scratch().f32(streams.rows, fn.n), squares = context.scratch().f32(streams.rows, 1);
  const MixCall call{raw,
                     squares,
                     streams.cols,
                     hc.scale.data(),
                     hc.base.data(),
                     config.hc_mult,
                     config.hc_sinkhorn_iters,
                     static_cast<float>(config.norm_eps),
                     static_cast<float>(config.hc_eps),
                     out.pre,
                     out.post,
                     out.comb};
  const ChainCall chain{streams, matrix_of(fn, streams), fn.format, false, raw, squares};
  if (is_chain(streams, fn) && is_chain_mix(chain)) {
    return context.run("mhc mix", chain_mix, chain, call, context.tickets());
  }
  if (is_chain(streams, fn) && is_chain_tile(chain)) {
    context.run("mhc product", chain_tile, chain);
  } else {
    product(context, streams, fn, false, raw);
    context.run("mhc squares", square_sums, streams, squares);
  }
  context.run("mhc mix", split_mix, call);
}

void route(CudaContext& context, const RouteCall& call) {
  if (call.x.rows == 0) return;
  const Workspace::Scope scope(context.scratch());
  const Tensor products = context.scratch().f32(call.x.rows, call.gate->n);
  const RouteWork work{
      products,     call.bias,       static_cast<float>(call.temperature), static_cast<float>(call.scaling),
      call.out.ids, call.out.weights};
  const ChainCall chain{call.x, matrix_of(*call.gate, call.x), call.gate->format, false, products, {}};
  if (is_chain(call.x, *call.gate) && is_chain_route(chain, work)) {
    return context.run("route", chain_route, chain, work, context.tickets());
  }
  product(context, call.x, *call.gate, false, products);
  context.run("route", choose_experts, work);
}

}  // namespace tandem::gpu::cuda
