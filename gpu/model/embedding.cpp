// (1) Embedding: e = embed[token]; every residual stream starts as e, and the first collapse takes stream 0 alone.
#include <span>
#include <vector>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {

Residual embed(const StepContext& step) {
  const ModelConfig& config = step.config();
  const std::int64_t rows = step.row_count();
  Residual residual{step.workspace.f32(rows, config.streams_width()), step.workspace.f32(rows, config.hc_mult),
                    step.workspace.f32(rows, config.hidden)};

  const Workspace::Scope scope(step.workspace);
  const Tensor embedded = step.workspace.f32(rows, config.hidden);
  step.ops().gather_rows(step.model.weights.embed, step.rows.tokens(), embedded);
  std::vector<RowMove> moves;
  std::vector<float> pre;
  for (std::int64_t row = 0; row < rows; ++row) {
    float* streams = residual.streams.row<float>(row);
    for (std::int64_t stream = 0; stream < config.hc_mult; ++stream) {
      moves.push_back({embedded.row<float>(row), streams + stream * config.hidden});
      pre.push_back(stream == 0 ? 1.0F : 0.0F);
    }
  }
  step.ops().move_rows(moves, config.hidden);
  step.ops().memory().upload(std::as_bytes(std::span(pre)), residual.pre.data);
  return residual;
}

}  // namespace tandem::gpu
