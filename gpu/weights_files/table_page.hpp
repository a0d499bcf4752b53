// The first page of a model's first Engram table: a piece of data that only a node with the real tables can read, small
// enough to be asked for over the network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engram/error.hpp"

namespace tandem::gpu {

struct TablePage {
  std::string path;  // of the shard, relative to the folder
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // at most 4096
};

// Returns nothing if the model has no Engram, or its tables lie in a base folder. Errors: those of reading the headers.
Result<std::optional<TablePage>> find_table_page(const std::filesystem::path& folder);

}  // namespace tandem::gpu
