// Which shards an index names: the list of files of a repository that has no manifest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

inline constexpr std::size_t index_tensors_max = 400'000;  // the released index has a hundred thousand

// Returns the shards that the text of a `model.safetensors.index.json` names, each once. It comes from the network:
// nothing is built of a text with many more values than `index_tensors_max`, and a path is one that a manifest may
// list. Errors: bad_format, out_of_range.
Result<std::vector<std::string>> shards_of_index(std::string_view text, const std::string& where);

}  // namespace tandem::gpu
