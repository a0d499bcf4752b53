// Where a checkpoint keeps its Engram tables, in the terms of engram/: the one place that both serving and packing ask.
#pragma once

#include <vector>

#include "engram/geometry.hpp"
#include "engram/row_store.hpp"
#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/config.hpp"

namespace tandem::gpu {

// Returns the tables' tensors in the order of config.engram.layers. Errors: not_found, mismatch (naming the tensor).
Result<std::vector<engram::ShardTable>> find_engram_sources(const ModelConfig& config, const Checkpoint& checkpoint);

// Returns the hash geometry of a configuration. `pad_class` is the class of engram_pad_token_id; ranges of rows do not
// depend on it. Errors: those of Geometry::make.
Result<engram::Geometry> make_engram_geometry(const EngramConfig& config, engram::ClassId pad_class);

}  // namespace tandem::gpu
