// EXL3 experts: rows sorted by expert, every matrix multiplied once for all of its rows.
//
// Each matrix rotates its own inputs: gate and up read x through two rotations, which share a launch as their products
// do, or memory, one after the other. Products stay in the order of the sorted uses; the sum over slots finds them by
// position. The gate writes h over the products that it reads.
//
// Few rows need no plan: the products find, gate and rotate their uses themselves, two launches in all. Some more are
// those of exl3_few_experts.cpp.
#include <algorithm>

#include "gpu/cuda/exl3_calls.hpp"
#include "gpu/cuda/expert_layer.hpp"
#include "gpu/cuda/expert_scratch.hpp"

namespace tandem::gpu::cuda {
namespace {

bool same_kind(const Exl3Shape& a, const Exl3Shape& b) {
  return a.bits == b.bits && a.codebook == b.codebook;
}

// Uses of one chunk in the form of the grouped kernels.
struct Uses {
  ExpertPlan plan;
  std::int64_t count = 0;
  std::int32_t rows_most = 0;
  Exl3Order order = Exl3Order::lanes;  // of their rotated rows
};

static_assert(sizeof(ExpertTile) == sizeof(Exl3Group), "tiles are handed over as groups");

// One order for all products of the uses, since they share the plan.
Exl3Order order_of(const ExpertTable& table, std::int64_t uses) {
  const auto has_steps = [&](const Exl3Bank& bank) {
    return std::all_of(bank.kinds.begin(), bank.kinds.end(), [&](const Exl3Shape& kind) {
      return exl3_group_order(kind, static_cast<int>(uses)) == Exl3Order::steps;
    });
  };
  const bool all =
      has_steps(table.gate) && has_steps(table.up) && std::all_of(table.down.begin(), table.down.end(), has_steps);
  return all ? Exl3Order::steps : Exl3Order::lanes;
}

Uses plan_uses(CudaContext& context, const ExpertTable& table, const MoeCall& call, const Routing& routing) {
  Uses uses;
  const auto experts = static_cast<int>(call.weights->experts.size());
  uses.count = routing.ids.rows * routing.ids.cols;
  uses.order = order_of(table, uses.count);
  const int group_rows = exl3_group_rows(uses.order);
  uses.rows_most = static_cast<std::int32_t>(std::min<std::int64_t>(routing.ids.rows, group_rows));
  const auto list = [&](std::int64_t length) { return context.scratch().i32(1, length).row<std::int32_t>(0); };
  ExpertPlan& plan = uses.plan;
  plan.tiles_max = tiles_of(uses.count, experts, group_rows);
  plan.uses = list(uses.count);
  plan.source_of_use = list(uses.count);
  plan.expert_of_use = list(uses.count);
  plan.position_of_use = list(uses.count);
  plan.tile_count = list(1);
  plan.tiles = reinterpret_cast<ExpertTile*>(list(3 * plan.tiles_max));
  context.run("expert plan", plan_experts, routing.ids, experts, group_rows, plan);
  return uses;
}

Exl3Groups groups_of(const Exl3Bank& bank, const Uses& uses) {
  Exl3Groups groups;
  groups.table = bank.table.as<const Exl3Matrix>();
  groups.groups = reinterpret_cast<const Exl3Group*>(uses.plan.tiles);
  groups.count = static_cast<std::int32_t>(uses.plan.tiles_max);
  groups.rows_most = uses.rows_most;
  groups.matrix_of_row = uses.plan.expert_of_use;
  return groups;
}

// Rotates the uses' rows of x for all tables of the groups.
Exl3Rotated rotate_uses(CudaContext& context, const Exl3Shape& shape, const Exl3Groups& groups, const Tensor& x,
                        const Uses& uses) {
  const std::int64_t tables = groups.second == nullptr ? 1 : 2;
  Exl3Rotated rotated = exl3_rotated(context, tables * uses.count, shape.inputs);
  rotated.order = uses.order;
  const auto rows = static_cast<int>(uses.count);
  context.run("exl3 rotation", exl3_rotate_groups, shape, groups, exl3_rows_of(x), rows, rotated);
  return rotated;
}

void multiply_kinds(CudaContext& context, const std::vector<Exl3Shape>& kinds, const Exl3Groups& groups,
                    const Exl3Rotated& rotated, const Exl3Products& products, const Uses& uses) {
  for (const Exl3Shape& kind : kinds) {
    context.run("exl3 experts", exl3_multiply_groups, kind, groups, rotated, products, static_cast<int>(uses.count));
  }
}

void multiply_uses(CudaContext& context, const std::vector<Exl3Shape>& kinds, const Exl3Groups& groups, const Tensor& x,
                   const Exl3Products& products, const Uses& uses) {
  const Workspace::Scope scope(context.scratch());
  multiply_kinds(context, kinds, groups, rotate_uses(context, kinds.front(), groups, x, uses), products, uses);
}

// gate and up of all uses, from rows of x.
void raise_uses(CudaContext& context, const ExpertTable& table, const Uses& uses, const Tensor& x,
                const Exl3Products& products) {
  Exl3Groups groups = groups_of(table.gate, uses);
  groups.source_of_row = uses.plan.source_of_use;
  groups.row_of_use = uses.plan.position_of_use;
  groups.slots = static_cast<std::int32_t>(uses.count / x.rows);
  if (!takes_turns(uses.count) && same_kinds(table.gate, table.up)) {
    groups.second = table.up.table.as<const Exl3Matrix>();
    return multiply_uses(context, table.gate.kinds, groups, x, products, uses);
  }
  multiply_uses(context, table.gate.kinds, groups, x, {products.y, {}}, uses);
  groups.table = table.up.table.as<const Exl3Matrix>();
  multiply_uses(context, table.up.kinds, groups, x, {products.second_y, {}}, uses);
}

// silu(gate) * up of all uses.
Tensor raised_uses(CudaContext& context, const ExpertTable& table, const MoeCall& call, const Uses& uses,
                   const Tensor& x, const Routing& routing) {
  const std::int64_t inter = call.weights->experts.front().w1.n;
  const Tensor h = context.scratch().f32(uses.count, inter);
  const Workspace::Scope scope(context.scratch());
  const Tensor up = context.scratch().f32(uses.count, inter);
  raise_uses(context, table, uses, x, {exl3_rows_of(h), exl3_rows_of(up)});
  const GateUsesWork gating{h,
                            up,
                            uses.plan.uses,
                            routing.weights.row<float>(0),
                            static_cast<float>(call.swiglu_limit),
                            call.numerics.bf16_activations,
                            h};
  context.run("expert gate", gate_uses, gating);
  return h;
}

// Products of down for all uses, part after part of its columns.
void lower_uses(CudaContext& context, const ExpertTable& table, const MoeCall& call, const Uses& uses, const Tensor& h,
                const SumProducts& sum) {
  const PartialLinear& down = call.weights->experts.front().w2;
  const std::size_t slices = table.down.size();
  const auto parts = static_cast<std::size_t>(expert_column_parts(uses.count, down.n));
  const std::vector<Exl3Bank>& banks = parts == 1 ? table.down : table.down_parts;
  const std::int64_t columns = down.n / static_cast<std::int64_t>(parts);
  const Workspace::Scope scope(context.scratch());
  const Tensor products = context.scratch().f32(static_cast<std::int64_t>(slices) * uses.count, columns);
  std::vector<Exl3Rotated> rotated;
  std::int64_t column = 0;
  for (std::size_t s = 0; s < slices; ++s) {
    const Exl3Bank& bank = table.down[s];
    const Tensor inputs = h.slice_cols(column, down.slices[s].k);
    rotated.push_back(rotate_uses(context, bank.kinds.front(), groups_of(bank, uses), inputs, uses));
    column += inputs.cols;
  }
  for (std::size_t part = 0; part < parts; ++part) {
    for (std::size_t s = 0; s < slices; ++s) {
      const Exl3Bank& bank = banks[s * parts + part];
      const Tensor block = products.slice_rows(static_cast<std::int64_t>(s) * uses.count, uses.count);
      multiply_kinds(context, bank.kinds, groups_of(bank, uses), rotated[s], {exl3_rows_of(block), {}}, uses);
    }
    sum({products, uses.plan.position_of_use, static_cast<std::int64_t>(part) * columns});
  }
}

// Part `part` of `parts` of a matrix's outputs, as a matrix.
Exl3Matrix part_of_outputs(Exl3Matrix matrix, int part, int parts) {
  matrix.shape.outputs /= parts;
  const std::int64_t first = std::int64_t{part} * matrix.shape.outputs;
  matrix.words =
      static_cast<const std::byte*>(matrix.words) + exl3_bytes(matrix.shape.inputs, first, matrix.shape.bits);
  matrix.svh = static_cast<const std::uint16_t*>(matrix.svh) + first;
  return matrix;
}

// Collects one matrix of all experts, or a part of it; `choose` returns it.
template <class Choose>
Exl3Bank make_bank(CudaContext& context, const MoeWeights& weights, const Choose& choose, int part = 0, int parts = 1) {
  std::vector<Exl3Matrix> matrices;
  Exl3Bank bank;
  for (const ExpertWeights& expert : weights.experts) {
    const Linear& weight = choose(expert);
    const Exl3Matrix matrix = part_of_outputs(exl3_matrix_of(weight), part, parts);
    const Exl3Shape& shape = matrices.empty() ? matrix.shape : matrices.front().shape;
    if (weight.format != WeightFormat::exl3 || shape.inputs != matrix.shape.inputs ||
        shape.outputs != matrix.shape.outputs) {
      context.stream.fail({ErrorCode::invalid_argument, weight.name, "another format or shape than its neighbours",
                           "experts of one shape, all EXL3"});
      return {};
    }
    const auto is_known = [&](const Exl3Shape& kind) { return same_kind(kind, matrix.shape); };
    if (std::none_of(bank.kinds.begin(), bank.kinds.end(), is_known)) bank.kinds.push_back(matrix.shape);
    matrices.push_back(matrix);
  }
  const auto bytes = std::as_bytes(std::span(matrices));
  bank.table = context.memory.allocate(bytes.size());
  context.memory.upload(bytes, bank.table.data.get());
  return bank;
}

bool accepts_uses(const ExpertTable& table, const Routing& routing) {
  const auto accepts = [&](const Exl3Bank& bank) {
    return std::all_of(bank.kinds.begin(), bank.kinds.end(), [&](const Exl3Shape& shape) {
      return exl3_accepts_uses(shape, static_cast<int>(routing.ids.rows), static_cast<int>(routing.ids.cols));
    });
  };
  return routing.ids.rows <= exl3_use_rows_max && accepts(table.gate) && accepts(table.up) &&
         std::all_of(table.down.begin(), table.down.end(), accepts);
}

void multiply_each_kind(CudaContext& context, const std::vector<Exl3Shape>& kinds, const Exl3Uses& uses,
                        const Exl3Products& products) {
  for (const Exl3Shape& kind : kinds) context.run("expert uses", exl3_multiply_uses, kind, uses, products);
}

// All routed products without a plan; use u has row u of everything.
void multiply_without_plan(CudaContext& context, const ExpertTable& table, const MoeCall& call, const Tensor& x,
                           const Routing& routing, const SumProducts& sum) {
  const ExpertWeights& expert = call.weights->experts.front();
  const std::int64_t count = routing.ids.rows * routing.ids.cols;
  const Tensor gate = context.scratch().f32(count, expert.w1.n), up = context.scratch().f32(count, expert.w1.n);
  Exl3Uses uses;
  uses.ids = static_cast<const std::int32_t*>(routing.ids.data);
  uses.count = static_cast<std::int32_t>(count);
  uses.slots = static_cast<std::int32_t>(routing.ids.cols);
  uses.x = exl3_rows_of(x);
  uses.table = table.gate.table.as<const Exl3Matrix>();
  const bool is_joint = same_kinds(table.gate, table.up);
  if (is_joint) uses.second = table.up.table.as<const Exl3Matrix>();
  multiply_each_kind(context, table.gate.kinds, uses, {exl3_rows_of(gate), exl3_rows_of(up)});
  if (!is_joint) {
    uses.table = table.up.table.as<const Exl3Matrix>();
    multiply_each_kind(context, table.up.kinds, uses, {exl3_rows_of(up), {}});
  }
  uses.second = nullptr;
  uses.x = {};
  const auto slices = static_cast<std::int64_t>(table.down.size());
  const RoutedProducts result{context.scratch().f32(slices * count, expert.w2.n), nullptr};
  std::int64_t column = 0;
  for (std::size_t s = 0; s < table.down.size(); ++s) {
    const std::int64_t width = expert.w2.slices[s].k;
    uses.table = table.down[s].table.as<const Exl3Matrix>();
    uses.gate = {exl3_rows_of(gate.slice_cols(column, width)), exl3_rows_of(up.slice_cols(column, width)),
                 routing.weights.row<float>(0), static_cast<float>(call.swiglu_limit), call.numerics.bf16_activations};
    const Tensor block = result.products.slice_rows(static_cast<std::int64_t>(s) * count, count);
    multiply_each_kind(context, table.down[s].kinds, uses, {exl3_rows_of(block), {}});
    column += width;
  }
  sum(result);
}

}  // namespace

bool same_kinds(const Exl3Bank& a, const Exl3Bank& b) {
  return std::equal(a.kinds.begin(), a.kinds.end(), b.kinds.begin(), b.kinds.end(), same_kind);
}

void prepare_exl3_experts(CudaContext& context, const MoeWeights& weights, ExpertTable& table) {
  table.gate = make_bank(context, weights, [](const ExpertWeights& e) -> const Linear& { return e.w1; });
  table.up = make_bank(context, weights, [](const ExpertWeights& e) -> const Linear& { return e.w3; });
  const PartialLinear& down = weights.experts.front().w2;
  const auto parts = static_cast<int>(expert_column_parts(INT32_MAX, down.n));
  for (std::size_t s = 0; s < down.slices.size(); ++s) {
    const auto slice = [s](const ExpertWeights& e) -> const Linear& { return e.w2.slices[s]; };
    table.down.push_back(make_bank(context, weights, slice));
    for (int part = 0; parts > 1 && part < parts; ++part) {
      table.down_parts.push_back(make_bank(context, weights, slice, part, parts));
    }
  }
}

void exl3_routed_products(CudaContext& context, const MoeCall& call, const Tensor& x, const Routing& routing,
                          const SumProducts& sum) {
  const auto* table = static_cast<const ExpertTable*>(call.weights->packed.get());
  if (table == nullptr || table->down.empty() || table->gate.kinds.empty()) {
    context.stream.fail({ErrorCode::invalid_argument, "EXL3 experts", "not prepared", "Ops::prepare after loading"});
    return;
  }
  if (accepts_uses(*table, routing)) return multiply_without_plan(context, *table, call, x, routing, sum);
  if (are_few_uses(routing)) return sum(products_of_few(context, *table, call, x, routing));
  const Uses uses = plan_uses(context, *table, call, routing);
  // Blocks of a chunk leave no room on a multiprocessor: a kernel beside them would wait for each of theirs to end.
  if (uses.order == Exl3Order::steps) context.stream.join(shared_side);
  lower_uses(context, *table, call, uses, raised_uses(context, *table, call, uses, x, routing), sum);
}

}  // namespace tandem::gpu::cuda
