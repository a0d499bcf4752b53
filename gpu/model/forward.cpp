// The stack of layers. A row meets, per layer: Engram, tap, block; then the final collapse.
//
// Encoder/decoder shortcut: layers above the last KV source leave nothing behind but their own windows, so rows far
// from the end of a prompt stop at that source once its entries are stored.
#include "gpu/model/forward.hpp"

#include <algorithm>

#include "gpu/model/row_copy.hpp"

namespace tandem::gpu {
namespace {

int last_kv_source(const ModelConfig& config) noexcept {
  return config.kv_sources.empty() ? -1 : *std::max_element(config.kv_sources.begin(), config.kv_sources.end());
}

// What travels up the stack: the step's rows with their residual and choices.
struct Stack {
  StepContext step;
  Residual residual;
  Selection selection;
  Tensor taps;
};

void record_tap(Stack& stack, int tap) {
  const ModelConfig& config = stack.step.config();
  const Tensor out = stack.taps.slice_cols(std::int64_t{tap} * config.hidden, config.hidden);
  stack.step.ops().mean_streams(stack.residual.streams, config.hc_mult, stack.step.rounds(), out);
}

struct LayerRange {
  int first = 0;
  int last = 0;
  int stored_source = -1;  // its entries of these rows are in the caches already
};

// The host issues these in less time than a device needs for one of them: the rest is issued while it works.
constexpr int layers_ahead = 4;

Result<void> run_layers(Stack& stack, LayerRange range, const EngramRows& engram) {
  const ModelConfig& config = stack.step.config();
  for (int layer = range.first; layer < range.last; ++layer) {
    const LayerRole& role = config.roles[static_cast<std::size_t>(layer)];
    stack.step.scope = "layers." + std::to_string(layer) + ".";
    if (layer == range.first + layers_ahead) stack.step.ops().cut();
    if (role.has_engram) {
      if (auto ok = engram_hook(stack.step, layer, engram, stack.residual.streams); !ok) return ok;
    }
    if (role.tap >= 0 && !stack.taps.empty()) record_tap(stack, role.tap);
    const auto attention = [&](const Tensor& input) {
      return backbone_attention(stack.step, layer, input, stack.selection, layer == range.stored_source);
    };
    const auto& layers = stack.step.model.weights.layers;
    const auto number = static_cast<std::size_t>(layer);
    // Engram changes the streams between two blocks.
    const bool is_followed = layer + 1 < range.last && !config.roles[number + 1].has_engram;
    const BlockSite site{layers[number], {config.experts_per_token, true}, is_followed ? &layers[number + 1] : nullptr};
    if (auto ok = run_block(stack.step, site, stack.residual, attention); !ok) return ok;
  }
  return {};
}

// Window entries, compressed entries and index keys of the last source for all rows: all that later tokens need of
// them.
void store_last_source(Stack& stack, int layer) {
  StepContext& step = stack.step;
  step.scope = "layers." + std::to_string(layer) + ".";
  const Workspace::Scope scope(step.workspace);
  const BlockWeights& weights = step.model.weights.layers[static_cast<std::size_t>(layer)];
  const Tensor input = mhc_input(step, stack.residual.streams, stack.residual.pre, weights.attn_norm);
  std::vector<RecordRing> rings;
  for (std::int32_t row = 0; row < step.rows.rows(); ++row) rings.push_back(step.rows.sequence(row).window(layer));
  const LayerRole& role = step.config().roles[static_cast<std::size_t>(layer)];
  store_window(step, {weights.attn, step.model.rope_of(role), rings}, input);
  store_latents(step, layer, compress(step, layer, input));
}

// Row numbers of the trailing `upper` rows of each segment, which also become the batch of the upper layers.
std::vector<std::int32_t> keep_upper_rows(const RowBatch& rows, std::span<const std::int32_t> upper, RowBatch& kept) {
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i < rows.segments().size(); ++i) {
    const Segment& segment = rows.segments()[i];
    const std::int32_t count = std::clamp(upper[i], 0, segment.count);
    kept.add(*segment.sequence, segment.first_position + segment.count - count, count);
    for (std::int32_t k = segment.count - count; k < segment.count; ++k) numbers.push_back(segment.first_row + k);
  }
  return numbers;
}

Stack make_stack(const Model& model, Workspace& workspace, const RowBatch& rows, const ForwardOptions& options) {
  Stack stack{{model, workspace, rows, options.probe, {}}, {}, {}, {}};
  const auto taps = static_cast<std::int64_t>(model.config.dspark.target_layers.size());
  if (options.taps && taps > 0) stack.taps = workspace.f32(rows.rows(), taps * model.config.hidden);
  return stack;
}

// Lets rows `numbers` of the lower part enter the upper one.
void take_rows(const Stack& lower, std::span<const std::int32_t> numbers, Stack& upper) {
  Workspace& workspace = upper.step.workspace;
  const auto rows = static_cast<std::int64_t>(numbers.size());
  upper.residual = {workspace.f32(rows, lower.residual.streams.cols), workspace.f32(rows, lower.residual.pre.cols),
                    workspace.f32(rows, upper.step.config().hidden)};
  Ops& ops = upper.step.ops();
  copy_rows(ops, lower.residual.streams, numbers, upper.residual.streams);
  copy_rows(ops, lower.residual.pre, numbers, upper.residual.pre);
  upper.selection = make_selection(upper.step);
}

// (8) The final collapse takes the mix of the last FFN site; there is no learned mix.
ForwardResult collapse(Stack& stack) {
  const StepContext& step = stack.step;
  ForwardResult result{step.rows, step.workspace.f32(step.row_count(), step.config().hidden), stack.taps};
  step.ops().mhc_collapse(stack.residual.streams, stack.residual.pre, step.rounds(), result.hidden);
  if (!result.taps.empty() && step.probe != nullptr) {
    step.show_as("main_hidden", result.taps, {result.taps.rows, result.taps.cols});
  }
  return result;
}

}  // namespace

std::int64_t upper_rows_needed(const ModelConfig& config) noexcept {
  const int source = last_kv_source(config);
  if (source < 0 || !config.roles[static_cast<std::size_t>(source)].is_index_source()) return -1;
  for (int layer = source; layer < config.layers; ++layer) {
    if (config.roles[static_cast<std::size_t>(layer)].has_engram) return -1;
  }
  const std::int64_t above = config.layers - 1 - source;
  return config.window + std::max<std::int64_t>(0, above - 1) * (config.window - 1);
}

Result<ForwardResult> ForwardPass::run(const RowBatch& rows, const ForwardOptions& options) {
  workspace_.reset();
  const bool reads = model_.engram && options.engram_rows == nullptr;
  const auto request = reads ? model_.engram->prefetch(rows) : Result<EngramRequest>(EngramRequest{});
  if (!request) return request.error();
  const EngramRows engram{*request, options.engram_rows};
  const int source = last_kv_source(model_.config);
  const bool shortened = !options.upper_rows.empty();
  Stack lower = make_stack(model_, workspace_, rows, options);
  lower.residual = embed(lower.step);
  lower.selection = make_selection(lower.step);
  const LayerRange below{0, shortened ? source : model_.config.layers, -1};
  if (auto ok = run_layers(lower, below, engram); !ok) return ok.error();
  if (!shortened) return collapse(lower);

  store_last_source(lower, source);
  RowBatch kept;
  const std::vector<std::int32_t> numbers = keep_upper_rows(rows, options.upper_rows, kept);
  Stack upper = make_stack(model_, workspace_, kept, options);
  take_rows(lower, numbers, upper);
  if (numbers.empty()) return ForwardResult{};
  if (auto ok = run_layers(upper, {source, model_.config.layers, source}, engram); !ok) return ok.error();
  return collapse(upper);
}

Result<Tensor> ForwardPass::logits(const ForwardResult& result, std::span<const std::int32_t> rows, Probe* probe) {
  const StepContext step{model_, workspace_, result.rows, probe, "final."};
  const Tensor hidden = workspace_.f32(static_cast<std::int64_t>(rows.size()), model_.config.hidden);
  copy_rows(step.ops(), result.hidden, rows, hidden);
  return head_logits(step, hidden, model_.weights.norm);
}

}  // namespace tandem::gpu
