// Sizes of lanes and pools: see the header for the two kinds of memory.
#include "gpu/state/cache_layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace tandem::gpu {
namespace {

constexpr std::size_t alignment = 64;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

Result<void> check(const CacheLimits& limits, std::int64_t page_tokens) {
  const auto refuse = [](const char* what, std::int64_t found, std::int64_t least) -> Result<void> {
    return Error{ErrorCode::invalid_argument, what, std::to_string(found), "at least " + std::to_string(least)};
  };
  if (limits.max_positions < 1) return refuse("max_positions", limits.max_positions, 1);
  if (limits.lanes_max < 1) return refuse("lanes_max", limits.lanes_max, 1);
  if (limits.chunk_rows_max < 1) return refuse("chunk_rows_max", limits.chunk_rows_max, 1);
  if (limits.kv_tokens < page_tokens) return refuse("kv_tokens", limits.kv_tokens, page_tokens);
  return {};
}

}  // namespace

std::size_t CacheLayout::ring_bytes() const noexcept {
  return aligned(static_cast<std::size_t>(window_slots) * record_bytes(window_format, head_dim));
}

std::size_t CacheLayout::open_group_bytes() const noexcept {
  return aligned(static_cast<std::size_t>(open_slots * 2 * head_dim) * sizeof(float));
}

std::size_t CacheLayout::lane_bytes() const noexcept {
  return static_cast<std::size_t>(layers + stages) * ring_bytes() + sources.size() * open_group_bytes();
}

std::size_t CacheLayout::pool_bytes(const SourceLayout& source) const noexcept {
  const std::size_t per_entry =
      record_bytes(entry_format, head_dim) + (source.has_index_keys ? record_bytes(index_format, index_dim) : 0);
  return static_cast<std::size_t>(source.pages * page_entries) * per_entry;
}

std::size_t CacheLayout::total_bytes() const noexcept {
  std::size_t bytes = static_cast<std::size_t>(limits.lanes_max) * lane_bytes();
  for (const SourceLayout& source : sources) bytes += pool_bytes(source);
  return bytes;
}

int CacheLayout::source_index(int layer) const noexcept {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].layer == layer) return static_cast<int>(i);
  }
  return -1;
}

Result<CacheLayout> plan_caches(const ModelConfig& config, const Numerics& numerics, const CacheLimits& limits) {
  CacheLayout layout;
  layout.limits = limits;
  layout.head_dim = config.head_dim;
  layout.index_dim = config.index_head_dim;
  layout.layers = config.layers;
  layout.stages = config.dspark.stages;
  layout.window = config.window;
  if (numerics.kv_quantisers) {
    layout.window_format = RecordFormat::w8;
    layout.entry_format = RecordFormat::n4;
    layout.index_format = RecordFormat::x4;
  }
  // A draft pass writes its block behind the newest committed row: the rings must hold that too.
  layout.window_slots = config.window + limits.chunk_rows_max + config.dspark.block_size;
  layout.open_slots = config.dspark.block_size + 3;
  // After taking back n rows a ring must still hold the window in front of them, an open-group ring the row in front of
  // them.
  layout.rollback_rows = std::min<std::int64_t>(limits.chunk_rows_max, layout.open_slots - 1);

  std::int64_t group = 1;
  for (const LayerRole& role : config.roles) {
    if (role.is_kv_source()) group = std::lcm(group, static_cast<std::int64_t>(role.ratio));
  }
  layout.page_tokens = page_entries * group;
  if (auto ok = check(limits, layout.page_tokens); !ok) return ok.error();
  layout.units = limits.kv_tokens / layout.page_tokens;
  for (const LayerRole& role : config.roles) {
    if (!role.is_kv_source()) continue;
    SourceLayout source;
    source.layer = role.layer;
    source.ratio = role.ratio;
    source.has_index_keys = std::any_of(config.roles.begin(), config.roles.end(),
                                        [&](const LayerRole& user) { return user.index_keys == role.layer; });
    source.pages = layout.units * (layout.page_tokens / (role.ratio * page_entries));
    layout.sources.push_back(source);
  }
  return layout;
}

}  // namespace tandem::gpu
