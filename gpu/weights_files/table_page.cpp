// Found by the headers, like the tables themselves.
#include "gpu/weights_files/table_page.hpp"

#include <algorithm>

#include "gpu/checkpoint/engram_extents.hpp"

namespace tandem::gpu {
namespace {

constexpr std::uint64_t page_bytes_max = 4096;

}  // namespace

Result<std::optional<TablePage>> find_table_page(const std::filesystem::path& folder) {
  const auto config = ModelConfig::load(folder);
  if (!config) return config.error();
  if (config->engram.layers.empty()) return std::optional<TablePage>{};
  const auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return checkpoint.error();
  const auto tables = find_engram_extents(*checkpoint, *config);
  if (!tables) return tables.error();
  for (const EngramExtents& table : *tables) {
    const auto path = table.codes.file.lexically_relative(folder);
    if (path.empty() || *path.begin() == "..") continue;
    const auto bytes = static_cast<std::uint64_t>(table.codes.rows * table.codes.row_bytes);
    return std::optional(TablePage{path.generic_string(), table.codes.offset, std::min(bytes, page_bytes_max)});
  }
  return std::optional<TablePage>{};
}

}  // namespace tandem::gpu
