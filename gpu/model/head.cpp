// (8) Head: logits of collapsed rows. Every rank computes its own vocabulary rows; the gathered row is the same on all
// ranks.
#include <vector>

#include "gpu/model/blocks.hpp"
#include "gpu/model/rank_gather.hpp"

namespace tandem::gpu {

Result<Tensor> head_logits(const StepContext& step, const Tensor& hidden, const DenseF32& norm) {
  const Linear& head = step.model.weights.head;
  const int ranks = step.model.ranks();
  const Tensor logits = step.workspace.f32(hidden.rows, head.n * ranks);
  const Workspace::Scope scope(step.workspace);
  const Tensor normed = step.workspace.f32(hidden.rows, hidden.cols);
  step.ops().rmsnorm(hidden, norm, step.config().norm_eps, step.rounds(), normed);
  step.show("normed", normed, {normed.rows, normed.cols});
  const LinearMode mode{step.mode(head).q8, false};
  if (ranks == 1) {
    step.ops().linear(normed, head, mode, logits);
    return logits;
  }
  const Tensor local = step.workspace.f32(hidden.rows, head.n);
  const Tensor all = step.workspace.f32(hidden.rows * ranks, head.n);
  step.ops().linear(normed, head, mode, local);
  if (auto ok = gather_over_ranks(step, local, all); !ok) return ok.error();
  std::vector<RowMove> moves;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t row = 0; row < hidden.rows; ++row) {
      moves.push_back({all.row<float>(rank * hidden.rows + row), logits.row<float>(row) + rank * head.n});
    }
  }
  step.ops().move_rows(moves, head.n);
  return logits;
}

}  // namespace tandem::gpu
