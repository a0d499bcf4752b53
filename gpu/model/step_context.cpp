// Reading records back for a probe.
#include "gpu/model/step_context.hpp"

#include <span>

namespace tandem::gpu {

void StepContext::show_records(const char* site, RecordFormat format, int n,
                               const std::vector<const std::byte*>& places) const {
  if (probe == nullptr) return;
  const Workspace::Scope scope_of_values(workspace);
  const auto rows = static_cast<std::int64_t>(places.size());
  const Tensor values = workspace.f32(rows, n);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::span<float> out(values.row<float>(row), static_cast<std::size_t>(n));
    read_record(format, places[static_cast<std::size_t>(row)], out);
  }
  show(site, values, {rows, n});
}

}  // namespace tandem::gpu
