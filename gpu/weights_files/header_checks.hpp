// W1 to W5: what a model folder's configuration, index and headers say, held against each other and against the layout.
// No weight is read, of packed matrices only the four bytes of their codebook marker: seconds for half a terabyte.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/weights_files/weight_check.hpp"

namespace tandem::gpu {

// What W1 found; the other checks stand on it. Either both are there or W1 failed.
struct WeightHeaders {
  std::optional<ModelConfig> config;
  std::optional<Checkpoint> checkpoint;
  std::vector<ExpectedTensor> inventory;
  bool is_complete() const noexcept { return config.has_value() && checkpoint.has_value(); }
};

struct FilesCheck {
  WeightCheck verdict;
  WeightHeaders headers;
};

// W1: configuration and index are there, and every shard of the index, of the folders below it and of the banks has
// exactly the size that its header implies; index and headers name the same tensors.
FilesCheck check_files(const std::filesystem::path& folder);

// W2: the counts of the layout. Numbered shards ("-00003-of-00048") are complete where the layout has them all (an
// official checkpoint, and every family of shards with packed matrices in it); expert banks hold every routed expert of
// the backbone; there is one Engram table for each layer that has one.
WeightCheck check_counts(const WeightHeaders& headers);

// W3: names, types and shapes of all tensors but the Engram tables; bits of every packed matrix as
// quantization_config.json lists them, where it does (never the rounded average of config.json).
WeightCheck check_tensors(const WeightHeaders& headers);

// W4: every packed matrix has one codebook whose marker holds that codebook's multiplier, and packed sizes that follow
// from its bits.
WeightCheck check_packed_matrices(const WeightHeaders& headers);

// W5: Engram tables of exactly the layers that the configuration names, F8_E4M3 rows of its width and number with
// F8_E8M0 scales; the hash geometry can be made.
WeightCheck check_tables(const WeightHeaders& headers);

}  // namespace tandem::gpu
