// One file of packed matrices: written at once, and recognised when a pack is continued.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "gpu/exl3/matrix.hpp"

namespace tandem::gpu::exl3 {

struct NamedMatrix {
  std::string module;
  PackedMatrix matrix;
};

// Writes the tensors of the matrices; `job` goes into the file's metadata. Errors: io.
Result<void> write_pack_shard(const std::filesystem::path& path, const std::vector<NamedMatrix>& matrices,
                              const std::string& job);

// Returns true if `path` is a complete shard of this job, false if there is no file. Errors: mismatch (of another job),
// and those of SafetensorsFile::open.
Result<bool> is_pack_shard_of(const std::filesystem::path& path, const std::string& job);

// Writes model.safetensors.index.json for shards of a folder, from their headers. Errors: io and those of the files.
Result<void> write_pack_index(const std::filesystem::path& folder, const std::vector<std::string>& shards);

// Writes a small text file: complete or not at all. Errors: io.
Result<void> write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace tandem::gpu::exl3
