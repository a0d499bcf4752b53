// ExpertPlan: the rows of one MoE call, grouped by expert, so that an expert's weights are decoded once for all of its
// rows. A product is one (row, expert) pair; products are numbered batch by batch.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/ops.hpp"

namespace tandem::gpu {

// One expert's rows: products [first, first + rows.size()).
struct ExpertBatch {
  const ExpertWeights* expert = nullptr;
  std::int64_t first = 0;
  std::vector<std::int64_t> rows;  // rows of x
  std::vector<float> weights;      // routing weights
};

struct ExpertPlan {
  std::vector<ExpertBatch> batches;        // used experts by id, then the shared one
  std::vector<std::int64_t> slot_product;  // [T, k]: number of the product of a row's slot
  std::int64_t shared_first = -1;          // the shared expert's product of row 0, -1 if there is none
  std::int64_t products = 0;
};

// Groups the rows of call.x by call.routing; every id names an expert of call.weights.
ExpertPlan plan_experts(const MoeCall& call);

}  // namespace tandem::gpu
