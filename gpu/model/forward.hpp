// ForwardPass: the backbone from token ids to collapsed rows and logits, (1)-(8), for any mixture of rows.
//
// Results live in the pass's workspace until the next run(). Every rank of a model runs the same batches in the same
// order.
#pragma once

#include <span>
#include <vector>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {

struct ForwardOptions {
  bool taps = false;       // also collect the draft network's features
  Probe* probe = nullptr;  // whole batch, all layers
  // Trailing rows of each segment that must reach the top; the rows before them only leave their compressed entries,
  // index keys and windows of the layers up to the last KV source. Empty: all rows. See upper_rows_needed().
  std::vector<std::int32_t> upper_rows;
  // Values of the rows of all Engram tables (EngramTables::make_room), to be taken from there at the latest moment;
  // null: the pass reads them itself.
  const std::vector<Buffer>* engram_rows = nullptr;
};

struct ForwardResult {
  RowBatch rows;  // rows that reached the top
  Tensor hidden;  // [rows, D] collapsed streams before the final norm
  Tensor taps;    // [rows, taps * D] or empty
};

class ForwardPass {
 public:
  explicit ForwardPass(const Model& model) : model_(model), workspace_(model.ops->memory()) {}

  // The tokens of the rows are in their sequences already. Errors: of the communicator and the Engram tables.
  Result<ForwardResult> run(const RowBatch& rows, const ForwardOptions& options);
  // logits [n, vocab] of the given rows of the last result.
  Result<Tensor> logits(const ForwardResult& result, std::span<const std::int32_t> rows, Probe* probe = nullptr);

  Workspace& workspace() noexcept { return workspace_; }
  const Model& model() const noexcept { return model_; }

 private:
  const Model& model_;
  Workspace workspace_;
};

// Returns how many trailing rows of a prompt must run through all layers so that its last row and everything later are
// exact: W + (N - 1)(W - 1), N layers above the last KV source; each of them loses W - 1 rows at the front. -1 if the
// shortcut does not apply to this model (the last source must choose its entries itself and no Engram layer may follow
// it).
std::int64_t upper_rows_needed(const ModelConfig& config) noexcept;

}  // namespace tandem::gpu
