// Partial products over K slices and ranks, as the parts of one sum.
//
// A rank holds consecutive K slices, ranks follow each other in K: adding slice after slice, rank after rank, is one
// fixed order. One rank with two halves and two ranks with one half each therefore add the same numbers in the same
// order, and round once: at the end of the site (block.cpp).
#include "gpu/model/blocks.hpp"
#include "gpu/model/rank_gather.hpp"

namespace tandem::gpu {

Result<Tensor> gather_partials(const StepContext& step, const Tensor& partials) {
  if (step.model.ranks() == 1) return partials;
  const Tensor all = step.workspace.f32(partials.rows * step.model.ranks(), partials.cols);
  if (auto ok = gather_over_ranks(step, partials, all); !ok) return ok.error();
  return all;
}

}  // namespace tandem::gpu
