// The mixture of experts: rows in chunks of bounded scratch memory; routed experts by tiles, the shared one as linears.
#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/cuda/calls.hpp"
#include "gpu/cuda/expert_kernels.hpp"
#include "gpu/cuda/expert_layer.hpp"
#include "gpu/cuda/expert_scratch.hpp"

namespace tandem::gpu::cuda {
namespace {

bool is_aligned(const ExpertWeights& expert) {
  const auto& slices = expert.w2.slices;
  return has_aligned_rows(expert.w1) && has_aligned_rows(expert.w3) &&
         std::all_of(slices.begin(), slices.end(), has_aligned_rows);
}

std::vector<ExpertMatrices> matrices_of(const MoeWeights& weights) {
  std::vector<ExpertMatrices> all;
  for (const ExpertWeights& expert : weights.experts) {
    const bool aligned = is_aligned(expert);
    const auto matrix = [&](const Linear& weight) {
      Matrix result = matrix_of(weight, {});
      result.is_aligned = aligned;
      return result;
    };
    ExpertMatrices& out = all.emplace_back();
    out.w1 = matrix(expert.w1);
    out.w3 = matrix(expert.w3);
    for (std::size_t s = 0; s < expert.w2.slices.size() && s < 2; ++s) out.w2[s] = matrix(expert.w2.slices[s]);
  }
  return all;
}

const ExpertMatrices* find_table(CudaContext& context, const MoeWeights& weights) {
  if (weights.packed) return static_cast<const ExpertTable*>(weights.packed.get())->matrices.as<const ExpertMatrices>();
  const std::vector<ExpertMatrices> matrices = matrices_of(weights);
  return context.staging.send(std::span<const ExpertMatrices>(matrices));
}

// Everything that is the same for all chunks of one call.
struct Layer {
  const MoeCall& call;
  const ExpertMatrices* table = nullptr;
  WeightFormat format = WeightFormat::bf16;
  int experts = 0, slots = 0, slices = 1;
  std::int64_t inter = 0;
  bool q8 = false, shared_q8 = false;
  ExpertScratch scratch = {};  // of a chunk
};

void routed_products(CudaContext& context, const Layer& layer, const Tensor& x, const Routing& routing,
                     const SumProducts& sum) {
  if (layer.format == WeightFormat::exl3) return exl3_routed_products(context, layer.call, x, routing, sum);
  const std::int64_t uses = x.rows * layer.slots;
  const int tile_rows = uses <= layer.experts ? 1 : 4;
  ExpertPlan plan;
  plan.tiles_max = tiles_of(uses, layer.experts, tile_rows);
  plan.uses = context.scratch().i32(1, uses).row<std::int32_t>(0);
  plan.tiles = reinterpret_cast<ExpertTile*>(context.scratch().i32(plan.tiles_max, 3).data);
  plan.tile_count = context.scratch().i32(1, 1).row<std::int32_t>(0);
  context.run("expert plan", plan_experts, routing.ids, layer.experts, tile_rows, plan);
  RaiseWork raising{x,
                    layer.table,
                    layer.format,
                    plan,
                    layer.slots,
                    tile_rows,
                    routing.weights.row<float>(0),
                    static_cast<float>(layer.call.swiglu_limit),
                    layer.call.numerics.bf16_activations,
                    context.scratch().f32(uses, layer.inter)};
  context.run("experts up", raise, raising);
  const Tensor h = linear_input(context, raising.h, layer.q8);
  const Tensor products = context.scratch().f32(layer.slices * uses, layer.call.out.cols);
  const LowerWork lowering{h, layer.table, layer.format, plan, tile_rows, layer.slices, products};
  context.run("experts down", lower, lowering);
  sum({products, nullptr});
}

// Beside the stream; the result lasts until the side begins something else, behind everything launched until then.
Tensor shared_products(CudaContext& context, const Layer& layer, const Tensor& x) {
  const ExpertWeights& shared = layer.call.weights->shared;
  if (shared.w1.empty()) return {};
  const Workspace::Scope scope(context.scratch());
  context.scratch().reserve(layer.scratch.branch);
  const bool round = layer.call.numerics.bf16_activations;
  const Tensor gate = context.scratch().f32(x.rows, shared.w1.n), up = context.scratch().f32(x.rows, shared.w1.n);
  const LinearCall raising[] = {{x, &shared.w1, {false, round}, gate}, {x, &shared.w3, {false, round}, up}};
  linears(context, raising);
  const auto limit = static_cast<float>(layer.call.swiglu_limit);
  context.run("shared gate", swiglu, gate, up, limit, round, gate);
  const Tensor h = linear_input(context, gate, layer.shared_q8);
  const Tensor products = context.scratch().f32(layer.slices * x.rows, layer.call.out.cols);
  partial_linear(context, h, shared.w2, {false, false}, products);
  return products;
}

// What begin_moe left, or made now.
Tensor take_shared_products(CudaContext& context, const Layer& layer, const Tensor& x) {
  const BegunShared begun = std::exchange(context.begun_shared, {});
  if (begun.weights == layer.call.weights && begun.x == x.data) return begun.products;
  context.stream.enter_side(shared_side);
  const Tensor products = shared_products(context, layer, x);
  context.stream.leave_side();
  return products;
}

void mix_chunk(CudaContext& context, const Layer& layer, std::int64_t first, std::int64_t rows) {
  const Workspace::Scope scope(context.scratch());
  context.scratch().reserve(layer.scratch.stream);
  const MoeCall& call = layer.call;
  const Routing routing{call.routing.ids.slice_rows(first, rows), call.routing.weights.slice_rows(first, rows)};
  const Tensor plain = call.x.slice_rows(first, rows);
  const Tensor x = linear_input(context, plain, layer.q8);
  const Tensor shared_x = layer.shared_q8 == layer.q8 ? x : linear_input(context, plain, layer.shared_q8);
  const Tensor shared = take_shared_products(context, layer, shared_x);
  const Tensor out = call.out.slice_rows(first, call.out.rows - first);
  routed_products(context, layer, x, routing, [&](const RoutedProducts& routed) {
    context.stream.join(shared_side);
    if (!context.stream.is_sound()) return;
    CombineWork work;
    const std::int64_t columns = routed.products.cols;
    work.products = routed.products;
    work.position_of_use = routed.position_of_use;
    if (shared.data != nullptr) work.shared = shared.slice_cols(routed.column, columns);
    work.slots = layer.slots;
    work.slices = layer.slices;
    work.is_finished = !call.numerics.fp32_partials;
    work.round = call.numerics.bf16_activations;
    work.rows = rows;
    work.out = out.slice_cols(routed.column, columns);
    work.out_stride_rows = call.x.rows;
    context.run("expert sum", combine, work);
  });
  context.stream.join(shared_side);
}

}  // namespace

void prepare_experts(CudaContext& context, MoeWeights& weights) {
  if (weights.experts.empty()) return;
  auto table = std::make_shared<ExpertTable>();
  if (weights.experts.front().w1.format == WeightFormat::exl3) {
    prepare_exl3_experts(context, weights, *table);
    weights.packed = std::move(table);
    return;
  }
  const std::vector<ExpertMatrices> matrices = matrices_of(weights);
  const auto bytes = std::as_bytes(std::span(matrices));
  table->matrices = context.memory.allocate(bytes.size());
  context.memory.upload(bytes, table->matrices.data.get());
  weights.packed = std::move(table);
}

namespace {

Layer layer_of(const MoeCall& call) {
  const ExpertShape shape = expert_shape(call);
  Layer layer{call};
  layer.format = call.weights->experts.front().w1.format;
  layer.experts = static_cast<int>(shape.experts);
  layer.slots = static_cast<int>(shape.slots);
  layer.slices = static_cast<int>(shape.slices);
  layer.inter = shape.inter;
  layer.q8 = shape.q8;
  layer.shared_q8 = shape.shared_q8;
  layer.scratch = expert_scratch(shape, call.x.rows);
  return layer;
}

}  // namespace

// One chunk only, and rows as they are: what is left beside the stream is one list of products.
void begin_moe(CudaContext& context, const MoeCall& call) {
  const bool is_exl3 = call.weights->experts.front().w1.format == WeightFormat::exl3;
  if (call.x.rows == 0 || call.x.rows > expert_chunk_rows(is_exl3) || call.weights->shared.w1.empty()) return;
  const Layer layer = layer_of(call);
  if (layer.shared_q8 || layer.q8) return;
  context.stream.enter_side(shared_side);
  context.begun_shared = {call.weights, call.x.data, shared_products(context, layer, call.x)};
  context.stream.leave_side();
}

void moe(CudaContext& context, const MoeCall& call) {
  if (call.x.rows == 0) return;
  const ExpertWeights& expert = call.weights->experts.front();
  const auto address = reinterpret_cast<std::uintptr_t>(call.x.data);
  if (is_aligned(expert) && (address % 16 != 0 || call.x.stride % 4 != 0)) {
    context.stream.fail({ErrorCode::invalid_argument, "moe input", "not aligned to 16 bytes", "rows of the workspace"});
    return;
  }
  Layer layer = layer_of(call);
  const bool is_exl3 = layer.format == WeightFormat::exl3;
  if (!is_exl3) layer.table = find_table(context, *call.weights);
  const std::int64_t chunk = expert_chunk_rows(is_exl3);
  for (std::int64_t first = 0; first < call.x.rows; first += chunk) {
    mix_chunk(context, layer, first, std::min(chunk, call.x.rows - first));
  }
}

}  // namespace tandem::gpu::cuda
