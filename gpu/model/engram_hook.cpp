// (2) Engram: a gated n-gram memory written into all residual streams, before everything else in its layer.
//
// The 24 rows of a position are one input vector; one linear gives a key for every stream and one value for all of
// them. The mixed stream itself is the query. Image positions look nothing up and pass through unchanged.
#include "gpu/model/blocks.hpp"
#include "gpu/model/probe_views.hpp"

namespace tandem::gpu {

namespace {

Result<void> show_row_ids(const StepContext& step, const EngramTables& tables, std::size_t table) {
  if (step.probe == nullptr) return {};
  const auto ids = tables.row_ids(table, step.rows);
  if (!ids) return ids.error();
  const std::int64_t columns = step.config().engram.columns();
  std::vector<std::int32_t> shown;
  for (const engram::RowId id : *ids) shown.push_back(static_cast<std::int32_t>(engram::index_of(id)));
  const Tensor matrix = Tensor::i32(shown.data(), step.row_count(), columns);
  step.probe->record(step.scope + "engram_ids", matrix, {matrix.rows, columns});
  return {};
}

// The rows arrive in host memory.
Result<void> collect_rows(const StepContext& step, int layer, const EngramRows& source, const Tensor& values) {
  EngramTables& tables = *step.model.engram;
  Memory& memory = step.ops().memory();
  const EngramRequest& request = source.request;
  if (source.values != nullptr) {
    const Buffer& given = (*source.values)[tables.table_of(layer)];
    memory.upload({given.data.get(), given.bytes}, values.data);
    return {};
  }
  if (memory.is_host()) return tables.collect(request, tables.table_of(layer), values);
  const Buffer rows = Buffer::host(bytes_of(values).size());
  Tensor arrived = values;
  arrived.data = rows.data.get();
  if (auto ok = tables.collect(request, tables.table_of(layer), arrived); !ok) return ok;
  memory.upload({rows.data.get(), rows.bytes}, values.data);
  return {};
}

}  // namespace

Result<void> engram_hook(const StepContext& step, int layer, const EngramRows& source, Tensor streams) {
  const ModelConfig& config = step.config();
  const EngramWeights& weights = step.model.weights.layers[static_cast<std::size_t>(layer)].engram;
  EngramTables& tables = *step.model.engram;
  const std::int64_t rows = step.row_count();
  step.show("engram_in", streams, {rows, config.hc_mult, config.hidden});

  const Workspace::Scope scope(step.workspace);
  if (auto ok = show_row_ids(step, tables, tables.table_of(layer)); !ok) return ok;
  const Tensor values = step.workspace.f32(rows, config.engram.row_width());
  if (auto ok = collect_rows(step, layer, source, values); !ok) return ok;
  step.show("engram_rows", values, {rows, config.engram.columns(), config.engram.head_dim});
  const Tensor keys_and_value = step.workspace.f32(rows, weights.wkv.n);
  step.ops().linear(values, weights.wkv, step.mode(weights.wkv), keys_and_value);
  step.show("engram_kv", keys_and_value, {rows, keys_and_value.cols});

  std::vector<std::uint8_t> keep;
  keep.reserve(static_cast<std::size_t>(rows));
  for (std::int32_t row = 0; row < step.rows.rows(); ++row) keep.push_back(step.rows.is_image(row) ? 0 : 1);
  show_engram_gate(step, streams, keys_and_value, weights, keep);
  step.ops().engram_gate(streams, keys_and_value, weights, keep.data(), config, step.rounds());
  return {};
}

}  // namespace tandem::gpu
