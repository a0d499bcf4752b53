// Derives what every backbone layer does from the *_layer_ids lists of the configuration.
//
// Example, ratios [0, 2, 2, 1, 1, 1], KV sources [1, 3], index sources [1, 3, 5], candidate source 3:
//   layer 0  window only                     layer 3  produces ratio-1 KV, selects, publishes candidates
//   layer 1  produces ratio-2 KV, selects    layer 4  reads KV of 3, reuses the selection of 3
//   layer 2  reads KV and selection of 1     layer 5  reads KV of 3, selects inside the candidates of 3 with the keys
//   of 3
#include <fmt/format.h>

#include <algorithm>

#include "gpu/config.hpp"

namespace tandem::gpu {
namespace {

Error inconsistent(std::string key, std::string found, std::string expected) {
  return {ErrorCode::bad_config, std::move(key), std::move(found), std::move(expected)};
}

bool contains(const std::vector<int>& list, int layer) {
  return std::find(list.begin(), list.end(), layer) != list.end();
}

// The nearest source at or below `layer`, or -1.
int nearest(const std::vector<int>& sources, int layer) {
  int found = -1;
  for (int source : sources) {
    if (source <= layer) found = std::max(found, source);
  }
  return found;
}

int ratio_of(const ModelConfig& config, int layer) {
  return config.compress_ratios[static_cast<std::size_t>(layer)];
}

Result<void> check_sources(const ModelConfig& config, const std::vector<int>& sources, const char* key) {
  if (std::adjacent_find(sources.begin(), sources.end(), std::greater_equal<>()) != sources.end()) {
    return inconsistent(key, "a list that is not ascending", "ascending layers without repetition");
  }
  for (int layer : sources) {
    if (layer < 0 || layer >= config.layers) {
      return inconsistent(key, fmt::format("layer {}", layer), fmt::format("layers 0..{}", config.layers - 1));
    }
    if (ratio_of(config, layer) == 0) {
      return inconsistent(key, fmt::format("layer {} with compress ratio 0", layer), "layers with a ratio above 0");
    }
  }
  return {};
}

// A layer's selection counts entries of its own KV source, so the two must change together.
Result<void> resolve_sources(const ModelConfig& config, LayerRole& role) {
  const int layer = role.layer;
  role.kv_source = nearest(config.kv_sources, layer);
  if (role.kv_source < 0) {
    return inconsistent("kv_source_layer_ids", fmt::format("no source at or below layer {}", layer),
                        fmt::format("a source for its compress ratio {}", role.ratio));
  }
  if (ratio_of(config, role.kv_source) != role.ratio) {
    return inconsistent("compress_ratios",
                        fmt::format("layer {} with ratio {} reads layer {} with ratio {}", layer, role.ratio,
                                    role.kv_source, ratio_of(config, role.kv_source)),
                        "the ratio of its KV source");
  }
  role.index_source = nearest(config.index_sources, layer);
  if (role.index_source < role.kv_source) {
    return inconsistent("index_source_layer_ids",
                        fmt::format("layer {} reads KV of layer {} but the selection of layer {}", layer,
                                    role.kv_source, role.index_source),
                        "every KV source to be an index source too");
  }
  role.index_keys = role.kv_source;
  return {};
}

Result<void> check_candidates(const ModelConfig& config) {
  if (config.candidate_source < 0) return {};
  if (!contains(config.index_sources, config.candidate_source)) {
    return inconsistent("candidate_source_layer_id", std::to_string(config.candidate_source),
                        "one of index_source_layer_ids");
  }
  // The newest block may hold a single visible entry; all candidates together must still fill a selection.
  const std::int64_t fewest = std::int64_t{config.candidate_blocks - 1} * config.candidate_block_size + 1;
  if (fewest < config.index_topk) {
    return inconsistent("candidate_topk_blocks", fmt::format("candidates that may be as few as {} entries", fewest),
                        fmt::format("at least index_topk = {}", config.index_topk));
  }
  return {};
}

LayerRole plain_role(const ModelConfig& config, int layer) {
  LayerRole role;
  role.layer = layer;
  role.ratio = ratio_of(config, layer);
  role.has_engram = contains(config.engram.layers, layer);
  const std::vector<int>& taps = config.dspark.target_layers;
  const auto tap = std::find(taps.begin(), taps.end(), layer);
  role.tap = config.dspark.stages > 0 && tap != taps.end() ? static_cast<int>(tap - taps.begin()) : -1;
  return role;
}

}  // namespace

Result<std::vector<LayerRole>> derive_roles(const ModelConfig& config) {
  if (config.compress_ratios.size() < static_cast<std::size_t>(config.layers)) {
    return inconsistent("compress_ratios", fmt::format("{} entries", config.compress_ratios.size()),
                        fmt::format("at least {}", config.layers));
  }
  if (auto ok = check_sources(config, config.kv_sources, "kv_source_layer_ids"); !ok) return ok.error();
  if (auto ok = check_sources(config, config.index_sources, "index_source_layer_ids"); !ok) return ok.error();
  if (auto ok = check_candidates(config); !ok) return ok.error();
  std::vector<LayerRole> roles;
  for (int layer = 0; layer < config.layers; ++layer) {
    LayerRole role = plain_role(config, layer);
    if (role.ratio > 0) {
      if (auto ok = resolve_sources(config, role); !ok) return ok.error();
    }
    role.publishes_candidates = layer == config.candidate_source;
    roles.push_back(role);
  }
  if (config.candidate_source < 0) return roles;
  // Candidates are blocks of the publisher's cache: they bind the indexers above it that score the same cache.
  const int scored = roles[static_cast<std::size_t>(config.candidate_source)].index_keys;
  for (LayerRole& role : roles) {
    role.uses_candidates = role.is_index_source() && role.layer > config.candidate_source && role.index_keys == scored;
  }
  return roles;
}

}  // namespace tandem::gpu
