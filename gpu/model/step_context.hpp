// StepContext: what every block of one forward pass needs besides its tensors.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "gpu/model/model.hpp"
#include "gpu/model/probe.hpp"
#include "gpu/model/row_batch.hpp"
#include "gpu/model/workspace.hpp"

namespace tandem::gpu {

struct StepContext {
  const Model& model;
  Workspace& workspace;
  const RowBatch& rows;
  Probe* probe = nullptr;
  std::string scope;  // prefix of probed names, e.g. "layers.3."

  Ops& ops() const noexcept { return *model.ops; }
  const ModelConfig& config() const noexcept { return model.config; }
  std::int64_t row_count() const noexcept { return rows.rows(); }
  // Whether activations are rounded to bf16 where the model does it.
  bool rounds() const noexcept { return model.numerics.bf16_activations; }
  // How a linear with this weight runs: Q8 belongs to the low-precision formats only.
  LinearMode mode(const Linear& weight) const noexcept {
    return {model.numerics.q8 && weight.is_low_precision(), rounds()};
  }
  // Shows the records just written at `places`, as the caches hold them: values after quantisation.
  void show_records(const char* site, RecordFormat format, int n, const std::vector<const std::byte*>& places) const;
  void show(const char* site, const Tensor& value, std::initializer_list<std::int64_t> shape) const {
    if (probe != nullptr) show_as(scope + site, value, std::vector<std::int64_t>(shape));
  }
  // Shows a tensor of the backend's memory under its full name; a tensor that cannot be read is not shown.
  void show_as(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) const;
};

}  // namespace tandem::gpu
