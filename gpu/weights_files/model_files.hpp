// The files of a model folder, as the file system has them: what is hashed, listed in a manifest and copied to another
// node.
//
// Part of a model is every regular file below its folder (links are followed) except what somebody's tools keep beside
// it: names that begin with a dot (Tandem's receipts and half-received files among them), the manifest itself, files
// under construction (*.part and their journals), and packed Engram files, which belong to a rank and not to the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

// What tells that a file is still the one that was hashed. The inode is among it because tools that copy files copy
// their times too: a copy is another file, and nobody has looked at its bytes yet.
struct FileState {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::uint64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

struct ModelFile {
  std::string path;  // relative to the folder, parts separated by '/'
  FileState state;
};

// Returns the state of a regular file, links followed. Errors: not_found, io (anything else has the name).
Result<FileState> file_state(const std::filesystem::path& file);

// Returns the files of a model, ascending by path. Errors: not_found, io, out_of_range (more files than a manifest may
// have, or folders nested deeper than eight: most likely a circle of links).
Result<std::vector<ModelFile>> list_model_files(const std::filesystem::path& folder);

// Whether a file or folder of that name, without its folder, can be part of a model by the rules above.
bool is_model_file_name(std::string_view name);

}  // namespace tandem::gpu
