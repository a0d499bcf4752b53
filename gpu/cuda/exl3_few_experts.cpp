// EXL3 experts of a step of some rows: two rotations and two products, no plan and no gate of their own.
//
// Products lie in the order of the sorted uses, as they do behind a plan; every block counts its place anew, so that no
// kernel has to write it down. Bits are those of the other ways (exl3_experts.cpp).
#include "gpu/cuda/exl3_calls.hpp"
#include "gpu/cuda/expert_layer.hpp"

namespace tandem::gpu::cuda {
namespace {

// What the products of one call share.
struct SortedUses {
  Exl3Uses uses;
  std::int32_t* positions = nullptr;
};

void multiply_sorted(CudaContext& context, const Exl3Bank& bank, const Exl3Bank* second, SortedUses sorted,
                     const Exl3Products& products) {
  const Workspace::Scope scope(context.scratch());
  Exl3Uses& uses = sorted.uses;
  uses.table = bank.table.as<const Exl3Matrix>();
  if (second != nullptr) uses.second = second->table.as<const Exl3Matrix>();
  const Exl3Shape& shape = bank.kinds.front();
  const Exl3Rotated rotated =
      exl3_rotated(context, (second == nullptr ? 1 : 2) * std::int64_t{uses.count}, shape.inputs);
  context.run("uses rotation", exl3_rotate_uses, shape, uses, rotated, sorted.positions);
  for (const Exl3Shape& kind : bank.kinds) {
    context.run("expert products", exl3_multiply_sorted, kind, uses, rotated, products);
  }
}

}  // namespace

bool are_few_uses(const Routing& routing) {
  return routing.ids.rows * routing.ids.cols <= exl3_sorted_uses_most;
}

RoutedProducts products_of_few(CudaContext& context, const ExpertTable& table, const MoeCall& call, const Tensor& x,
                               const Routing& routing) {
  const ExpertWeights& expert = call.weights->experts.front();
  const std::int64_t count = routing.ids.rows * routing.ids.cols;
  SortedUses sorted;
  sorted.positions = context.scratch().i32(1, count).row<std::int32_t>(0);
  sorted.uses.ids = static_cast<const std::int32_t*>(routing.ids.data);
  sorted.uses.count = static_cast<std::int32_t>(count);
  sorted.uses.slots = static_cast<std::int32_t>(routing.ids.cols);
  sorted.uses.x = exl3_rows_of(x);
  const Tensor gate = context.scratch().f32(count, expert.w1.n), up = context.scratch().f32(count, expert.w1.n);
  if (same_kinds(table.gate, table.up)) {
    multiply_sorted(context, table.gate, &table.up, sorted, {exl3_rows_of(gate), exl3_rows_of(up)});
  } else {
    multiply_sorted(context, table.gate, nullptr, sorted, {exl3_rows_of(gate), {}});
    multiply_sorted(context, table.up, nullptr, sorted, {exl3_rows_of(up), {}});
  }
  sorted.uses.x = {};
  const auto slices = static_cast<std::int64_t>(table.down.size());
  const RoutedProducts result{context.scratch().f32(slices * count, expert.w2.n), sorted.positions};
  std::int64_t column = 0;
  for (std::size_t s = 0; s < table.down.size(); ++s) {
    const std::int64_t width = expert.w2.slices[s].k;
    sorted.uses.gate = {exl3_rows_of(gate.slice_cols(column, width)), exl3_rows_of(up.slice_cols(column, width)),
                        routing.weights.row<float>(0), static_cast<float>(call.swiglu_limit),
                        call.numerics.bf16_activations};
    const Tensor block = result.products.slice_rows(static_cast<std::int64_t>(s) * count, count);
    multiply_sorted(context, table.down[s], nullptr, sorted, {exl3_rows_of(block), {}});
    column += width;
  }
  return result;
}

}  // namespace tandem::gpu::cuda
