// Experts in two passes over panels of outputs. Rows are grouped by expert, so an expert's weights are decoded once for
// all of its rows.
//
//   1  h = weight * silu(x w1^T) (x w3^T)   a unit is (expert, panel of the intermediate width)
//   2  y = sum over slots, in slot order, of h w2^T, then the shared expert; a unit is a panel of the hidden width, all
//   experts
//
// Pass 2 keeps a panel of every product, so the order of the sum over experts is the row's own slot order.
#include "gpu/cpu/moe_ops.hpp"

#include <algorithm>

#include "gpu/cpu/chain_product.hpp"
#include "gpu/cpu/exl3_moe.hpp"
#include "gpu/cpu/expert_batches.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

// Everything the passes share.
struct Work {
  const MoeCall& call;
  CpuContext& context;
  ExpertPlan plan;
  std::int64_t inter = 0;                  // width of h on this rank
  std::vector<float> h;                    // [products, inter]
  std::vector<std::vector<float>> panels;  // one worker's [2, rows of the largest batch or products, panel_cols]
};

// h of one panel for all rows of a batch.
void raise_panel(Work& work, int worker, const ExpertBatch& batch, std::int64_t first,
                 const std::vector<const float*>& x) {
  const auto rows = static_cast<std::int64_t>(batch.rows.size());
  const std::int64_t count = std::min(panel_cols, work.inter - first);
  float* gate = work.panels[static_cast<std::size_t>(worker)].data();
  float* up = gate + rows * panel_cols;
  std::vector<const float*> own(batch.rows.size());
  std::transform(batch.rows.begin(), batch.rows.end(), own.begin(),
                 [&](std::int64_t t) { return x[static_cast<std::size_t>(t)]; });
  multiply_panel(work.context.product(worker), own, {&batch.expert->w1, first, count}, gate, panel_cols);
  multiply_panel(work.context.product(worker), own, {&batch.expert->w3, first, count}, up, panel_cols);
  const bool round = work.call.numerics.bf16_activations;
  if (round) simd::round_bf16(gate, 2 * rows * panel_cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* h = work.h.data() + (batch.first + r) * work.inter + first;
    const simd::SwiGlu in{gate + r * panel_cols, up + r * panel_cols, static_cast<float>(work.call.swiglu_limit),
                          batch.weights[static_cast<std::size_t>(r)]};
    simd::swiglu(in, count, h);
    if (round) simd::round_bf16(h, count);
  }
}

void raise(Work& work) {
  const MoeCall& call = work.call;
  const bool q8 = call.numerics.q8 && work.plan.batches.front().expert->w1.is_low_precision();
  const std::vector<const float*> x = product_rows(work.context, call.x, q8);
  const std::int64_t panels = (work.inter + panel_cols - 1) / panel_cols;
  const auto units = static_cast<std::int64_t>(work.plan.batches.size()) * panels;
  work.context.pool.for_each_unit(units, unit_grain(2 * panel_cols * call.x.cols), [&](int worker, std::int64_t unit) {
    raise_panel(work, worker, work.plan.batches[static_cast<std::size_t>(unit / panels)], unit % panels * panel_cols,
                x);
  });
  if (!q8) return;
  work.context.for_each_row(work.plan.products, work.inter,
                            [&](std::int64_t p) { simd::fake_q8(work.h.data() + p * work.inter, work.inter); });
}

// out[r][c] = h . w2 for a batch and one slice of K.
void multiply_slice(Work& work, int worker, const ExpertBatch& batch, const PanelRange& range, std::int64_t k_first,
                    float* out) {
  std::vector<const float*> rows = row_pointers(work.h.data() + batch.first * work.inter + k_first,
                                                static_cast<std::int64_t>(batch.rows.size()), work.inter);
  multiply_panel(work.context.product(worker), rows, range, out, panel_cols);
}

// sum[r][c] = h . w2 for a batch and all of K; `part` is memory for as many floats as `sum`.
void multiply_whole(Work& work, int worker, const ExpertBatch& batch, const ChainRange& range, float* sum,
                    float* part) {
  const auto rows = static_cast<std::int64_t>(batch.rows.size());
  if (work.context.in_reference_order()) {
    const auto h = row_pointers(work.h.data() + batch.first * work.inter, rows, work.inter);
    return multiply_chain(work.context.product(worker), h, range, sum, panel_cols);
  }
  std::int64_t k_first = 0;
  for (const Linear& slice : range.slices) {
    multiply_slice(work, worker, batch, {&slice, range.first, range.count}, k_first, k_first == 0 ? sum : part);
    if (k_first != 0) simd::add(part, rows * panel_cols, sum);
    k_first += slice.k;
  }
}

// Sums the products of a panel over each row's slots and the shared expert.
void sum_slots(const Work& work, const float* products, std::int64_t count, const Tensor& out, std::int64_t first) {
  const std::int64_t slots = work.call.routing.ids.cols;
  for (std::int64_t t = 0; t < work.call.x.rows; ++t) {
    float* y = out.row<float>(t) + first;
    std::fill_n(y, count, 0.0F);
    for (std::int64_t j = 0; j < slots; ++j) {
      simd::add(products + work.plan.slot_product[static_cast<std::size_t>(t * slots + j)] * panel_cols, count, y);
    }
    if (work.plan.shared_first >= 0) simd::add(products + (work.plan.shared_first + t) * panel_cols, count, y);
  }
}

// One panel of y with FP32 partial sums: each slice of K has its own rows of out.
void lower_partial(Work& work, int worker, std::int64_t first, std::int64_t count) {
  float* products = work.panels[static_cast<std::size_t>(worker)].data();
  const auto slices = work.plan.batches.front().expert->w2.slices.size();
  std::int64_t k_first = 0;
  for (std::size_t s = 0; s < slices; ++s) {
    for (const ExpertBatch& batch : work.plan.batches) {
      multiply_slice(work, worker, batch, {&batch.expert->w2.slices[s], first, count}, k_first,
                     products + batch.first * panel_cols);
    }
    k_first += work.plan.batches.front().expert->w2.slices[s].k;
    const Tensor out = work.call.out.slice_rows(static_cast<std::int64_t>(s) * work.call.x.rows, work.call.x.rows);
    sum_slots(work, products, count, out, first);
  }
}

// One panel of y with the reference's roundings: every expert's output and the sum are bf16.
void lower_finished(Work& work, int worker, std::int64_t first, std::int64_t count) {
  float* products = work.panels[static_cast<std::size_t>(worker)].data();
  float* part = products + work.plan.products * panel_cols;
  for (const ExpertBatch& batch : work.plan.batches) {
    float* sum = products + batch.first * panel_cols;
    const auto size = static_cast<std::int64_t>(batch.rows.size()) * panel_cols;
    multiply_whole(work, worker, batch, {batch.expert->w2.slices, first, count}, sum, part);
    if (work.call.numerics.bf16_activations) simd::round_bf16(sum, size);
  }
  sum_slots(work, products, count, work.call.out, first);
  if (!work.call.numerics.bf16_activations) return;
  for (std::int64_t t = 0; t < work.call.x.rows; ++t) simd::round_bf16(work.call.out.row<float>(t) + first, count);
}

}  // namespace

void cpu_moe(CpuContext& context, const MoeCall& call) {
  if (call.x.rows == 0) return;
  if (has_exl3_experts(call)) return cpu_exl3_moe(context, call);
  Work work{call, context, plan_experts(call), call.weights->experts.front().w1.n, {}, {}};
  work.h.resize(static_cast<std::size_t>(work.plan.products * work.inter));
  const auto panel_floats = static_cast<std::size_t>(2 * work.plan.products * panel_cols);
  work.panels.assign(static_cast<std::size_t>(context.pool.threads()), std::vector<float>(panel_floats));
  raise(work);
  const std::int64_t width = call.weights->experts.front().w2.n;
  const std::int64_t macs = work.plan.products * panel_cols * work.inter;
  context.pool.for_each_unit(
      (width + panel_cols - 1) / panel_cols, unit_grain(macs), [&](int worker, std::int64_t panel) {
        const std::int64_t first = panel * panel_cols, count = std::min(panel_cols, width - first);
        if (call.numerics.fp32_partials) return lower_partial(work, worker, first, count);
        lower_finished(work, worker, first, count);
      });
}

}  // namespace tandem::gpu
