// Loading an engine: options and configuration become limits, a cache layout and a loaded model.
#include "gpu/engine.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "engram/text_file.hpp"
#include "gpu/backend.hpp"
#include "gpu/checkpoint/content_hash.hpp"
#include "gpu/engine_core.hpp"

namespace tandem::gpu {
namespace {

// Pools are never larger than this unless kv_tokens asks for it.
constexpr std::int64_t default_pool_bytes = std::int64_t{4} << 30;

int thread_count(const EngineOptions& options, int ranks) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

Result<CacheLayout> plan_layout(const EngineOptions& options, const Model& model) {
  CacheLimits limits;
  limits.max_positions = model.max_positions;
  limits.lanes_max = options.lanes_max;
  limits.chunk_rows_max = options.chunk_rows_max;
  limits.kv_tokens = options.kv_tokens;
  if (limits.kv_tokens > 0) return plan_caches(model.config, model.numerics, limits);

  // Every lane holds a whole number of page units; plan once with one lane's worth to learn their size.
  limits.kv_tokens = model.max_positions + page_entries * 64;
  auto layout = plan_caches(model.config, model.numerics, limits);
  if (!layout) return layout;
  const std::int64_t per_lane =
      (model.max_positions + layout->page_tokens - 1) / layout->page_tokens * layout->page_tokens;
  std::int64_t bytes = 0;
  for (const SourceLayout& source : layout->sources) bytes += static_cast<std::int64_t>(layout->pool_bytes(source));
  const std::int64_t bytes_per_unit = std::max<std::int64_t>(1, bytes / layout->units);
  const std::int64_t affordable = std::max(per_lane, default_pool_bytes / bytes_per_unit * layout->page_tokens);
  limits.kv_tokens = std::min(per_lane * options.lanes_max, affordable);
  return plan_caches(model.config, model.numerics, limits);
}

// Whatever makes two ranks compute or accept different things.
Result<std::uint64_t> config_hash(const EngineOptions& options, const Model& model, const CacheLayout& layout) {
  ContentHash hash;
  const auto config = engram::read_text(options.model / "config.json", config_bytes_max);
  if (!config) return config.error();
  hash.add(*config);
  hash.add(static_cast<std::int64_t>(model.content_hash));
  if (model.engram) hash.add(std::as_bytes(model.engram->token_map().classes()));
  const Numerics& numerics = model.numerics;
  for (const bool flag : {numerics.bf16_activations, numerics.kv_quantisers, numerics.q8, numerics.fp32_partials,
                          numerics.order == SumOrder::reference})
    hash.add(flag);
  hash.add(options.backend);
  hash.add(model.ranks());
  hash.add(model.max_positions);
  hash.add(layout.units);
  hash.add(layout.limits.lanes_max);
  hash.add(layout.limits.chunk_rows_max);
  hash.add(model.config.dspark.stages);
  return hash.value();
}

EngineInfo describe(const EngineOptions& options, const Model& model, const CacheLayout& layout) {
  EngineInfo info;
  const auto folder = options.model.has_filename() ? options.model : options.model.parent_path();
  info.model_name = folder.filename().string();
  info.layers = model.config.layers;
  info.vocab_size = model.config.vocab_size;
  info.max_positions = model.max_positions;
  info.page_tokens = layout.page_tokens;
  info.pages_total = layout.units;
  info.lanes_max = layout.limits.lanes_max;
  info.chunk_rows_max = layout.limits.chunk_rows_max;
  info.drafts_max =
      model.config.dspark.stages > 0 ? std::min(model.config.dspark.block_size, info.chunk_rows_max - 1) : 0;
  info.weight_bytes = model.weights.bytes;
  info.cache_bytes = layout.total_bytes();
  info.bos_id = model.config.bos_id;
  info.eos_id = model.config.eos_id;
  info.pad_id = model.config.pad_id;
  return info;
}

}  // namespace

Result<void> reach_devices(const EngineOptions& options, std::unique_ptr<Communicator>& group,
                           const std::atomic<bool>* stop) {
  if (options.backend != "cuda") return {};
  const auto device = device_of(options.devices, group->rank(), visible_devices());
  DeviceMember member{find_nccl(), device ? *device : -1, stop, {}};
  if (options.announce) {
    member.announce = [&options, rank = group->rank()](const std::string& text) {
      if (rank == 0) options.announce(text);
    };
  }
  auto reached = reach_devices(group, options.devices, member);
  if (!device) return device.error();  // the others were told, and have an error too
  return reached;
}

Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& options, Communicator& communicator,
                                            const LoadProgress& progress, const std::atomic<bool>* stop) {
  ModelOptions model_options;
  model_options.folder = options.model;
  model_options.numerics = options.numerics;
  model_options.backend = options.backend;
  model_options.devices = options.devices;
  model_options.max_positions = options.max_positions;
  model_options.threads = thread_count(options, communicator.size());
  model_options.draft = options.draft;
  model_options.cache_folder = options.cache_folder;
  model_options.engram = options.engram;
  if (options.announce) {
    model_options.announce = [&options, rank = communicator.rank()](const std::string& text) {
      options.announce("rank " + std::to_string(rank) + ": " + text);
    };
  }
  auto model = load_model(model_options, communicator, progress, stop);
  if (!model) return model.error();
  auto layout = plan_layout(options, **model);
  if (!layout) return layout.error();
  const auto hash = config_hash(options, **model, *layout);
  if (!hash) return hash.error();
  EngineInfo info = describe(options, **model, *layout);
  info.config_hash = *hash;
  std::unique_ptr<Engine> engine = std::make_unique<EngineCore>(std::move(*model), std::move(*layout), std::move(info));
  return engine;
}

}  // namespace tandem::gpu
