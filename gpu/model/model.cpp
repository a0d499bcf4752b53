// Loading one rank of a model: configuration, weights, backend, tables.
#include "gpu/model/model.hpp"

#include <algorithm>
#include <utility>

#include "gpu/backend.hpp"
#include "gpu/checkpoint/content_hash.hpp"
#include "gpu/checkpoint/loader.hpp"
#include "gpu/model/prepare_weights.hpp"

namespace tandem::gpu {
namespace {

Result<ModelWeights> load_rank(const Checkpoint& checkpoint, const Model& model, const ModelOptions& options,
                               const LoadProgress& progress, const std::atomic<bool>* stop) {
  LoadRequest request;
  request.rank = model.communicator->rank();
  request.ranks = model.communicator->size();
  request.draft = options.draft;
  request.progress = progress;
  request.stop = stop;
  BackendPlacer placer(*model.ops);
  request.placer = &placer;
  return load_weights(checkpoint, model.config, request);
}

// Several ranks hold partial sums only: rounding them one by one would differ from rounding the whole.
Result<Numerics> numerics_of(const ModelOptions& options, const Model& model) {
  auto numerics = parse_numerics(options.numerics, model.config.low_precision_weights);
  if (numerics && model.ranks() > 1) numerics->fp32_partials = true;
  return numerics;
}

Result<std::unique_ptr<Ops>> make_rank_ops(const ModelOptions& options, const Model& model) {
  BackendOptions backend{options.backend, options.threads, model.numerics.order, 0};
  if (options.backend == "cuda" && has_backend("cuda")) {
    const auto device = device_of(options.devices, model.communicator->rank(), visible_devices());
    if (!device) return device.error();
    backend.device = *device;
  }
  return make_ops(backend);
}

bool is_stopped(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load();
}

Error stopped(const ModelOptions& options) {
  return {ErrorCode::cancelled, options.folder.string(), "stopped while loading", ""};
}

void make_rope_tables(Model& model, const std::atomic<bool>* stop) {
  const ModelConfig& config = model.config;
  const std::int64_t positions = model.max_positions + config.dspark.block_size;
  model.rope_plain = std::make_unique<RopeTable>(config.rope, config.rope_dim, RopeKind::plain, positions, stop);
  model.rope_compressed =
      std::make_unique<RopeTable>(config.rope, config.rope_dim, RopeKind::compressed, positions, stop);
  if (is_stopped(stop)) return;
  model.rope_plain->place(model.ops->memory());
  model.rope_compressed->place(model.ops->memory());
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const ModelOptions& options, Communicator& communicator,
                                          const LoadProgress& progress, const std::atomic<bool>* stop) {
  auto config = ModelConfig::load(options.folder);
  if (!config) return config.error();
  auto model = std::make_unique<Model>();
  model->config = std::move(*config);
  model->communicator = &communicator;
  model->max_positions = options.max_positions > 0 ? options.max_positions : model->config.max_positions;
  const auto numerics = numerics_of(options, *model);
  if (!numerics) return numerics.error();
  model->numerics = *numerics;

  auto ops = make_rank_ops(options, *model);
  if (!ops) return ops.error();
  model->ops = std::move(*ops);

  const auto checkpoint = Checkpoint::open(options.folder);
  if (!checkpoint) return checkpoint.error();
  auto weights = load_rank(*checkpoint, *model, options, progress, stop);
  if (!weights) return weights.error();
  model->weights = std::move(*weights);
  const auto content = hash_content(*checkpoint, stop);
  if (!content) return content.error();
  model->content_hash = *content;
  if (model->weights.dspark.stages.empty()) {
    model->config.dspark = {};
    model->config.dspark.block_size = 0;
  }
  prepare_experts(model->weights, *model->ops);
  make_rope_tables(*model, stop);
  if (is_stopped(stop)) return stopped(options);
  if (!model->config.engram.layers.empty()) {
    auto tables =
        EngramTables::open(model->config, *checkpoint, {options.engram, options.cache_folder, options.announce});
    if (!tables) return tables.error();
    model->engram = std::move(*tables);
  }
  if (auto placed = model->ops->wait(); !placed) return placed.error();
  return model;
}

}  // namespace tandem::gpu
