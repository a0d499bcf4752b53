// One file of packed matrices: written at once, and recognised when a pack is continued.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engram/error.hpp"
#include "gpu/exl3/matrix.hpp"

namespace tandem::gpu::exl3 {

struct NamedMatrix {
  std::string module;
  PackedMatrix matrix;
};

// What the header of a shard of `job` says beside its tensors.
std::map<std::string, std::string> shard_metadata(const std::string& job);

// Writes the tensors of the matrices; `job` goes into the file's metadata. Errors: io.
Result<void> write_pack_shard(const std::filesystem::path& path, const std::vector<NamedMatrix>& matrices,
                              const std::string& job);

// Reads one matrix of a shard that write_pack_shard wrote. Errors: not_found (no such matrix), those of the file.
Result<NamedMatrix> read_pack_shard(const std::filesystem::path& path, const std::string& module);

// Returns true if `path` is a complete shard of this job, false if there is no file. Errors: mismatch (of another job),
// and those of SafetensorsFile::open.
Result<bool> is_pack_shard_of(const std::filesystem::path& path, const std::string& job);

// Writes model.safetensors.index.json for shards of a folder, from their headers. Errors: io and those of the files.
Result<void> write_pack_index(const std::filesystem::path& folder, const std::vector<std::string>& shards);

// Writes a small text file: complete or not at all. Errors: io.
Result<void> write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace tandem::gpu::exl3
