// ShardIndex: model.safetensors.index.json, the map from tensor names to shard files of one folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"
#include "gpu/checkpoint/byte_source.hpp"

namespace tandem::gpu {

inline constexpr const char* index_file_name = "model.safetensors.index.json";
inline constexpr const char* single_file_name = "model.safetensors";

struct ShardIndex {
  std::vector<std::string> shards;                          // file names, ascending
  std::map<std::string, std::size_t, std::less<>> tensors;  // tensor name -> position in `shards`
};

// Parses the text of an index; `where` names the file. Errors: bad_format (JSON, a tensor listed twice, no weight_map,
// an empty one, a value that is not a string, a shard name that is not a plain file name ending in .safetensors).
Result<ShardIndex> parse_shard_index(std::string_view json, const std::string& where);

}  // namespace tandem::gpu
