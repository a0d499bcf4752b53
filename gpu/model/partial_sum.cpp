// Sums of partial products over K slices and ranks.
//
// A rank holds consecutive K slices, ranks follow each other in K: adding slice after slice, rank after rank, is one
// fixed order. One rank with two halves and two ranks with one half each therefore add the same numbers in the same
// order, and round once.
#include "gpu/model/blocks.hpp"
#include "gpu/model/rank_gather.hpp"

namespace tandem::gpu {

Result<Tensor> sum_partials(const StepContext& step, const Tensor& partials) {
  const std::int64_t rows = step.row_count();
  const Tensor sum = step.workspace.f32(rows, partials.cols);
  const Workspace::Scope scope(step.workspace);
  Tensor all = partials;
  if (step.model.ranks() > 1) {
    all = step.workspace.f32(partials.rows * step.model.ranks(), partials.cols);
    if (auto ok = gather_over_ranks(step, partials, all); !ok) return ok.error();
  }
  step.ops().sum_blocks(all, step.rounds(), sum);
  return sum;
}

}  // namespace tandem::gpu
