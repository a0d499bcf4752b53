// (1) Embedding: e = embed[token]; every residual stream starts as e, and the first collapse takes stream 0 alone.
#include "gpu/model/blocks.hpp"
#include "gpu/model/row_copy.hpp"

namespace tandem::gpu {

Residual embed(const StepContext& step) {
  const ModelConfig& config = step.config();
  const std::int64_t rows = step.row_count();
  Residual residual{step.workspace.f32(rows, config.streams_width()), step.workspace.f32(rows, config.hc_mult)};

  const Workspace::Scope scope(step.workspace);
  const Tensor embedded = step.workspace.f32(rows, config.hidden);
  step.ops().gather_rows(step.model.weights.embed, step.rows.tokens(), embedded);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* pre = residual.pre.row<float>(row);
    for (int stream = 0; stream < config.hc_mult; ++stream) {
      copy_row(embedded.row<float>(row), residual.streams.row<float>(row) + std::int64_t{stream} * config.hidden,
               config.hidden);
      pre[stream] = stream == 0 ? 1.0F : 0.0F;
    }
  }
  return residual;
}

}  // namespace tandem::gpu
