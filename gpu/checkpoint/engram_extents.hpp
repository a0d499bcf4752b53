// EngramExtents: where the rows of one Engram table lie in the files, for a store that reads single rows. The loader
// never reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/config.hpp"

namespace tandem::gpu {

// `rows` rows of `row_bytes` bytes, end to end from byte `offset` of the file.
struct RowExtent {
  std::filesystem::path file;
  std::uint64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
};

struct EngramExtents {
  int layer = 0;
  RowExtent codes;   // F8_E4M3, head_dim bytes a row
  RowExtent scales;  // F8_E8M0, head_dim / 32 bytes a row
};

// Returns one entry for every Engram layer, in the order of config.engram.layers. Errors: not_found, mismatch (naming
// the tensor and the rows that the configuration declares).
Result<std::vector<EngramExtents>> find_engram_extents(const Checkpoint& checkpoint, const ModelConfig& config);

}  // namespace tandem::gpu
