// Visits every matrix of a model, e.g. to let a backend build its own form of it.
#pragma once

#include <functional>

#include "gpu/checkpoint/weight_placer.hpp"
#include "gpu/ops.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

// Calls `visit` once for each Linear that exists, embedding tables excluded: those are read by row, never multiplied.
void for_each_linear(ModelWeights& weights, const std::function<void(Linear&)>& visit);

// Gives matrices their backend's form, and moves what operations read to the backend's memory.
class BackendPlacer final : public WeightPlacer {
 public:
  explicit BackendPlacer(Ops& ops) noexcept : ops_(ops) {}
  void place_matrix(Linear& weight) override;
  void place_table(Linear& table) override;
  void place_vector(DenseF32& values) override;

 private:
  Ops& ops_;
};

// Prepares the experts of each layer, whose weights were placed.
void prepare_experts(ModelWeights& weights, Ops& ops);

}  // namespace tandem::gpu
