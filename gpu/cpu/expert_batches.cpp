// One pass over the routing collects each expert's uses; the order of experts and of rows inside one is ascending.
#include "gpu/cpu/expert_batches.hpp"

namespace tandem::gpu {

ExpertPlan plan_experts(const MoeCall& call) {
  const std::int64_t rows = call.x.rows, slots = call.routing.ids.cols;
  ExpertPlan plan;
  std::vector<std::vector<std::int64_t>> uses(call.weights->experts.size());  // t * slots + j
  for (std::int64_t t = 0; t < rows; ++t) {
    const auto* ids = call.routing.ids.row<std::int32_t>(t);
    for (std::int64_t j = 0; j < slots; ++j) uses[static_cast<std::size_t>(ids[j])].push_back(t * slots + j);
  }
  plan.slot_product.resize(static_cast<std::size_t>(rows * slots));
  for (std::size_t e = 0; e < uses.size(); ++e) {
    if (uses[e].empty()) continue;
    ExpertBatch batch{&call.weights->experts[e], plan.products, {}, {}};
    for (const std::int64_t use : uses[e]) {
      batch.rows.push_back(use / slots);
      batch.weights.push_back(call.routing.weights.row<float>(use / slots)[use % slots]);
      plan.slot_product[static_cast<std::size_t>(use)] = plan.products++;
    }
    plan.batches.push_back(std::move(batch));
  }
  if (call.weights->shared.w1.empty()) return plan;
  plan.shared_first = plan.products;
  ExpertBatch shared{
      &call.weights->shared, plan.products, {}, std::vector<float>(static_cast<std::size_t>(rows), 1.0F)};
  for (std::int64_t t = 0; t < rows; ++t) shared.rows.push_back(t);
  plan.products += rows;
  plan.batches.push_back(std::move(shared));
  return plan;
}

}  // namespace tandem::gpu
