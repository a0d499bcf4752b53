// A walk with a bounded depth; the order of the file system never shows.
#include "gpu/weights_files/model_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "engram/durable_file.hpp"
#include "gpu/weights_files/manifest.hpp"

namespace tandem::gpu {
namespace {

namespace fs = std::filesystem;

constexpr int folder_depth_max = 8;

// "engram-l1-r0of2.bin", its receipt and everything else that is named after it.
bool is_packed_engram_name(std::string_view name) noexcept {
  if (!name.starts_with("engram-l")) return false;
  name.remove_prefix(std::string_view("engram-l").size());
  const std::size_t end = name.find(".bin");
  if (end == std::string_view::npos) return false;
  return name.substr(0, end).find_first_not_of("0123456789-rof") == std::string_view::npos;
}

class FolderWalk {
 public:
  explicit FolderWalk(std::vector<ModelFile>& files) : files_(files) {}

  // `prefix` is the folder's path relative to the model's, with its slash.
  Result<void> add_folder(const fs::path& folder, const std::string& prefix, int depth) {
    if (depth > folder_depth_max) {
      return Error{ErrorCode::out_of_range, folder.string(), "folders nested this deep",
                   fmt::format("at most {}", folder_depth_max)};
    }
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (!is_model_file_name(name)) continue;
      if (auto added = add_entry(*at, prefix + name, depth); !added) return added;
    }
    if (failed) return Error{ErrorCode::io, folder.string(), failed.message(), "a readable folder"};
    return {};
  }

 private:
  Result<void> add_entry(const fs::directory_entry& entry, const std::string& path, int depth) {
    std::error_code failed;
    if (entry.is_directory(failed)) return add_folder(entry.path(), path + "/", depth + 1);
    auto state = file_state(entry.path());
    if (!state) return state.error();
    files_.push_back({path, *state});
    if (files_.size() <= manifest_files_max) return {};
    return Error{ErrorCode::out_of_range, entry.path().string(), "too many files",
                 fmt::format("at most {}", manifest_files_max)};
  }

  std::vector<ModelFile>& files_;
};

}  // namespace

bool is_model_file_name(std::string_view name) {
  const bool is_manifest = name == manifest_file_name || name.starts_with(std::string(manifest_file_name) + ".");
  // What a killed process was writing is nobody's.
  return !name.starts_with('.') && !is_manifest && engram::replaced_name(name).empty() && !name.ends_with(".part") &&
         !name.ends_with(".part.journal") && !is_packed_engram_name(name);
}

Result<FileState> file_state(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
    return Error{code, file.string(), std::generic_category().message(errno), "a file"};
  }
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::io, file.string(), "not a regular file", "a regular file"};
  return FileState{static_cast<std::uint64_t>(status.st_size),
                   static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec,
                   static_cast<std::uint64_t>(status.st_ino)};
}

Result<std::vector<ModelFile>> list_model_files(const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    return Error{ErrorCode::not_found, folder.string(), failed ? failed.message() : "no folder", "a model folder"};
  }
  std::vector<ModelFile> files;
  if (auto walked = FolderWalk(files).add_folder(folder, "", 0); !walked) return walked.error();
  std::sort(files.begin(), files.end(), [](const ModelFile& a, const ModelFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace tandem::gpu
