// Checkpoint: all shards of a model folder opened, with one map from tensor name to its place.
//
// A folder may stand on a base and have expert banks, see layers.hpp. Invariant after open: in each folder the index
// and the headers name exactly the same tensors, each in exactly one shard. Only headers were read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/checkpoint/index.hpp"
#include "gpu/checkpoint/safetensors.hpp"

namespace tandem::gpu {

// Where one tensor lies. Both pointers stay valid as long as the Checkpoint.
struct TensorPlace {
  const SafetensorsFile* shard = nullptr;
  const TensorEntry* entry = nullptr;
  // Returns "file: tensor", the way a tensor is named in messages.
  std::string where() const { return shard->path().string() + ": " + entry->name; }
};

class Checkpoint {
 public:
  // Opens `folder` by model.safetensors.index.json, or, without one, a single model.safetensors. Errors: not_found
  // (neither, or a shard of the index is missing), mismatch (a tensor that is not in the shard that the index names, or
  // is in one that it does not name, or in two banks without a choice), and those of find_layers, find_banks,
  // parse_shard_index and SafetensorsFile::open.
  static Result<Checkpoint> open(const std::filesystem::path& folder, const OpenSource& open_source = open_file);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::span<const SafetensorsFile> shards() const noexcept { return *shards_; }
  const std::map<std::string, TensorPlace, std::less<>>& tensors() const noexcept { return tensors_; }
  // Returns null if there is no such tensor.
  const TensorPlace* find(std::string_view name) const noexcept;

 private:
  std::filesystem::path folder_;
  std::shared_ptr<std::vector<SafetensorsFile>>
      shards_;  // shared: places keep pointing into it when a Checkpoint moves
  std::map<std::string, TensorPlace, std::less<>> tensors_;
};

}  // namespace tandem::gpu
