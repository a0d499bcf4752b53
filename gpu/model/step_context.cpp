// Reading records back for a probe.
#include "gpu/model/step_context.hpp"

#include <span>

namespace tandem::gpu {

void StepContext::show_records(const char* site, RecordFormat format, int n,
                               const std::vector<const std::byte*>& places) const {
  if (probe == nullptr) return;
  const auto rows = static_cast<std::int64_t>(places.size());
  std::vector<float> values(places.size() * static_cast<std::size_t>(n));
  std::vector<std::byte> record(record_bytes(format, n));
  for (std::size_t row = 0; row < places.size(); ++row) {
    if (!ops().memory().download(places[row], record)) return;
    read_record(format, record.data(),
                std::span(values).subspan(row * static_cast<std::size_t>(n), static_cast<std::size_t>(n)));
  }
  probe->record(scope + site, Tensor::f32(values.data(), rows, n), {rows, n});
}

void StepContext::show_as(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) const {
  Buffer copy;
  const auto readable = on_host(ops().memory(), value, copy);
  if (readable) probe->record(name, *readable, shape);
}

}  // namespace tandem::gpu
