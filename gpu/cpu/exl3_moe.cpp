// Experts in two passes over blocks of 128 outputs.
//
//   1  h = weight * silu(x w1^T) (x w3^T): waves of experts; the inputs of a wave are transformed first (every matrix
//      has scales of its own), then a unit is (expert, block of the intermediate width)
//   2  y = sum over slots, in slot order, of h w2^T, then the shared expert; a unit is a block of the hidden width
//
// A matrix in another format is multiplied panel by panel, from Q8 copies where the numerics ask for it.
#include "gpu/cpu/exl3_moe.hpp"

#include <algorithm>

#include "gpu/cpu/exl3_kernels.hpp"
#include "gpu/cpu/exl3_product.hpp"
#include "gpu/cpu/expert_batches.hpp"
#include "gpu/cpu/simd/kernels.hpp"

namespace tandem::gpu {
namespace {

using exl3::block_side;

bool is_exl3(const Linear& weight) noexcept {
  return weight.format == WeightFormat::exl3;
}

// Rows of activations for products: transformed, Q8 copies or the rows themselves.
using Pointers = std::vector<const float*>;

struct Work {
  const MoeCall& call;
  CpuContext& context;
  ExpertPlan plan;
  std::int64_t inter = 0;
  Pointers rows, rows_q8;                  // of x; rows_q8 is empty if no expert wants it
  std::vector<float> h;                    // [products, inter]
  std::vector<std::vector<float>> blocks;  // one worker's [2, products, block_side]

  bool wants_q8(const Linear& weight) const { return call.numerics.q8 && weight.is_low_precision(); }
  float* block(int worker) { return blocks[static_cast<std::size_t>(worker)].data(); }
};

// Outputs [128 * block, ...) of a weight in any format, y [rows, block_side].
void multiply_block(ProductScratch& scratch, RowList x, const Linear& weight, std::int64_t block, float* y) {
  if (is_exl3(weight)) return multiply_exl3_block(scratch, x, weight, block, y, block_side);
  const std::int64_t first = block * block_side, last = std::min(first + block_side, weight.n);
  for (std::int64_t c = first; c < last; c += panel_cols) {
    multiply_panel(scratch, x, {&weight, c, std::min(panel_cols, last - c)}, y + c - first, block_side);
  }
}

// ---- pass 1 ----

// The inputs of w1 and w3 for every product of a wave.
struct ConvertedInputs {
  Pointers gate, up;         // by product, from the wave's first one on
  std::vector<float> space;  // transformed rows
};

void prepare_inputs(Work& work, std::span<const ExpertBatch> wave, ConvertedInputs& inputs) {
  const std::int64_t first = wave.front().first;
  const std::int64_t count = wave.back().first + static_cast<std::int64_t>(wave.back().rows.size()) - first;
  const std::int64_t k = exl3::padded_side(work.call.x.cols);
  inputs.space.resize(static_cast<std::size_t>(2 * count * k));
  inputs.gate.resize(static_cast<std::size_t>(count));
  inputs.up.resize(static_cast<std::size_t>(count));
  std::vector<const ExpertBatch*> owner(static_cast<std::size_t>(count));
  for (const ExpertBatch& batch : wave) {
    std::fill_n(owner.begin() + (batch.first - first), batch.rows.size(), &batch);
  }
  const auto prepare = [&](const Linear& weight, std::size_t t, float* space) -> const float* {
    if (!is_exl3(weight)) return work.wants_q8(weight) ? work.rows_q8[t] : work.rows[t];
    simd::transform_exl3_inputs(work.rows[t], exl3_suh(weight), weight.k, space);
    return space;
  };
  work.context.for_each_row(count, 16 * k, [&](std::int64_t p) {
    const auto at = static_cast<std::size_t>(p);
    const ExpertBatch& batch = *owner[at];
    const auto t = static_cast<std::size_t>(batch.rows[static_cast<std::size_t>(first + p - batch.first)]);
    inputs.gate[at] = prepare(batch.expert->w1, t, inputs.space.data() + 2 * p * k);
    inputs.up[at] = prepare(batch.expert->w3, t, inputs.space.data() + (2 * p + 1) * k);
  });
}

void raise_block(Work& work, int worker, const ExpertBatch& batch, std::int64_t block, const ConvertedInputs& inputs,
                 std::int64_t wave_first) {
  const std::size_t rows = batch.rows.size(), at = static_cast<std::size_t>(batch.first - wave_first);
  const std::int64_t first = block * block_side, count = std::min(block_side, work.inter - first);
  float* gate = work.block(worker);
  float* up = gate + static_cast<std::int64_t>(rows) * block_side;
  ProductScratch& scratch = work.context.product(worker);
  multiply_block(scratch, RowList(inputs.gate).subspan(at, rows), batch.expert->w1, block, gate);
  multiply_block(scratch, RowList(inputs.up).subspan(at, rows), batch.expert->w3, block, up);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto offset = static_cast<std::int64_t>(r) * block_side;
    if (work.call.numerics.bf16_activations) {
      simd::round_bf16(gate + offset, count);
      simd::round_bf16(up + offset, count);
    }
    float* h = work.h.data() + (batch.first + static_cast<std::int64_t>(r)) * work.inter + first;
    simd::swiglu({gate + offset, up + offset, static_cast<float>(work.call.swiglu_limit), batch.weights[r]}, count, h);
    if (work.call.numerics.bf16_activations) simd::round_bf16(h, count);
  }
}

// Experts whose transformed inputs fit the memory that one wave may take, at least one.
std::span<const ExpertBatch> next_wave(const Work& work, std::size_t begin) {
  constexpr std::int64_t floats_max = 16 << 20;
  const std::int64_t product_floats = 2 * exl3::padded_side(work.call.x.cols);
  std::size_t end = begin;
  std::int64_t floats = 0;
  do {
    floats += static_cast<std::int64_t>(work.plan.batches[end].rows.size()) * product_floats;
    ++end;
  } while (end < work.plan.batches.size() &&
           floats + static_cast<std::int64_t>(work.plan.batches[end].rows.size()) * product_floats <= floats_max);
  return std::span(work.plan.batches).subspan(begin, end - begin);
}

void raise(Work& work) {
  const std::int64_t blocks = exl3::padded_side(work.inter) / block_side;
  ConvertedInputs inputs;
  for (std::size_t begin = 0; begin < work.plan.batches.size();) {
    const std::span<const ExpertBatch> wave = next_wave(work, begin);
    prepare_inputs(work, wave, inputs);
    const auto units = static_cast<std::int64_t>(wave.size()) * blocks;
    work.context.pool.for_each_unit(units, unit_grain(2 * block_side * work.call.x.cols),
                                    [&](int worker, std::int64_t unit) {
                                      raise_block(work, worker, wave[static_cast<std::size_t>(unit / blocks)],
                                                  unit % blocks, inputs, wave.front().first);
                                    });
    begin += wave.size();
  }
}

// ---- between the passes ----

// h becomes the input of w2 in place: Q8 values or transformed slices. A product belongs to one expert, so nothing else
// reads it.
void prepare_h(Work& work) {
  std::vector<const ExpertBatch*> owner(static_cast<std::size_t>(work.plan.products));
  for (const ExpertBatch& batch : work.plan.batches)
    std::fill_n(owner.begin() + batch.first, batch.rows.size(), &batch);
  work.context.for_each_row(work.plan.products, 8 * work.inter, [&](std::int64_t p) {
    const std::vector<Linear>& slices = owner[static_cast<std::size_t>(p)]->expert->w2.slices;
    float* h = work.h.data() + p * work.inter;
    if (work.wants_q8(slices.front())) return simd::fake_q8(h, work.inter);
    for (const Linear& slice : slices) {
      if (is_exl3(slice)) simd::transform_exl3_inputs(h, exl3_suh(slice), slice.k, h);
      h += slice.k;
    }
  });
}

// ---- pass 2 ----

void multiply_slice(Work& work, int worker, const ExpertBatch& batch, const Linear& slice, std::int64_t k_first,
                    std::int64_t block, float* out) {
  const Pointers rows = row_pointers(work.h.data() + batch.first * work.inter + k_first,
                                     static_cast<std::int64_t>(batch.rows.size()), work.inter);
  multiply_block(work.context.product(worker), rows, slice, block, out);
}

void sum_slots(const Work& work, const float* products, std::int64_t count, const Tensor& out, std::int64_t first) {
  const std::int64_t slots = work.call.routing.ids.cols;
  for (std::int64_t t = 0; t < work.call.x.rows; ++t) {
    float* y = out.row<float>(t) + first;
    std::fill_n(y, count, 0.0F);
    for (std::int64_t j = 0; j < slots; ++j) {
      simd::add(products + work.plan.slot_product[static_cast<std::size_t>(t * slots + j)] * block_side, count, y);
    }
    if (work.plan.shared_first >= 0) simd::add(products + (work.plan.shared_first + t) * block_side, count, y);
  }
}

// FP32 partial sums: each slice of K has its own rows of out.
void lower_partial(Work& work, int worker, std::int64_t block, std::int64_t count) {
  float* products = work.block(worker);
  const std::size_t slices = work.plan.batches.front().expert->w2.slices.size();
  std::int64_t k_first = 0;
  for (std::size_t s = 0; s < slices; ++s) {
    for (const ExpertBatch& batch : work.plan.batches) {
      multiply_slice(work, worker, batch, batch.expert->w2.slices[s], k_first, block,
                     products + batch.first * block_side);
    }
    k_first += work.plan.batches.front().expert->w2.slices[s].k;
    const Tensor out = work.call.out.slice_rows(static_cast<std::int64_t>(s) * work.call.x.rows, work.call.x.rows);
    sum_slots(work, products, count, out, block * block_side);
  }
}

// The reference's roundings: every expert's output and the sum are bf16.
void lower_finished(Work& work, int worker, std::int64_t block, std::int64_t count) {
  const bool round = work.call.numerics.bf16_activations;
  float* products = work.block(worker);
  float* part = products + work.plan.products * block_side;
  for (const ExpertBatch& batch : work.plan.batches) {
    float* sum = products + batch.first * block_side;
    const auto size = static_cast<std::int64_t>(batch.rows.size()) * block_side;
    std::int64_t k_first = 0;
    for (const Linear& slice : batch.expert->w2.slices) {
      multiply_slice(work, worker, batch, slice, k_first, block, k_first == 0 ? sum : part);
      if (k_first != 0) simd::add(part, size, sum);
      k_first += slice.k;
    }
    if (round) simd::round_bf16(sum, size);
  }
  sum_slots(work, products, count, work.call.out, block * block_side);
  if (!round) return;
  for (std::int64_t t = 0; t < work.call.x.rows; ++t) {
    simd::round_bf16(work.call.out.row<float>(t) + block * block_side, count);
  }
}

bool wants_q8(const MoeCall& call) {
  const auto low = [](const ExpertWeights& expert) { return expert.w1.is_low_precision(); };
  const std::vector<ExpertWeights>& experts = call.weights->experts;
  return call.numerics.q8 && (low(call.weights->shared) || std::any_of(experts.begin(), experts.end(), low));
}

}  // namespace

bool has_exl3_experts(const MoeCall& call) noexcept {
  const auto packed = [](const ExpertWeights& expert) {
    return is_exl3(expert.w1) || is_exl3(expert.w3) || is_exl3(expert.w2.slices.front());
  };
  const std::vector<ExpertWeights>& experts = call.weights->experts;
  const bool in_shared = !call.weights->shared.w1.empty() && packed(call.weights->shared);
  return in_shared || std::any_of(experts.begin(), experts.end(), packed);
}

void cpu_exl3_moe(CpuContext& context, const MoeCall& call) {
  if (call.x.rows == 0) return;
  Work work{call, context, plan_experts(call), call.weights->experts.front().w1.n, {}, {}, {}, {}};
  work.rows = product_rows(context, call.x, false);
  if (wants_q8(call)) work.rows_q8 = product_rows(context, call.x, true);
  work.h.resize(static_cast<std::size_t>(work.plan.products * work.inter));
  const auto block_floats = static_cast<std::size_t>(2 * work.plan.products * block_side);
  work.blocks.assign(static_cast<std::size_t>(context.pool.threads()), std::vector<float>(block_floats));
  raise(work);
  prepare_h(work);
  const std::int64_t width = call.weights->experts.front().w2.n;
  const std::int64_t macs = work.plan.products * block_side * work.inter;
  context.pool.for_each_unit(exl3::padded_side(width) / block_side, unit_grain(macs),
                             [&](int worker, std::int64_t block) {
                               const std::int64_t count = std::min(block_side, width - block * block_side);
                               if (call.numerics.fp32_partials) return lower_partial(work, worker, block, count);
                               lower_finished(work, worker, block, count);
                             });
}

}  // namespace tandem::gpu
