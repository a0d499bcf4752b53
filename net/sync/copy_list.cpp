// Two lists become one by their paths.
#include "net/sync/copy_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "gpu/weights_files/model_files.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;

Result<gpu::FileState> state_of_listed(const fs::path& folder, const gpu::ManifestEntry& entry) {
  const auto state = gpu::file_state(folder / entry.path);
  if (state && state->bytes == entry.bytes) return *state;
  if (!state && state.error().code != ErrorCode::not_found) return state.error();
  return Error{ErrorCode::mismatch, (folder / entry.path).string(),
               state ? fmt::format("{} bytes", state->bytes) : std::string("missing"),
               fmt::format("{} bytes, as the manifest here says", entry.bytes)};
}

}  // namespace

Result<std::vector<CopyFile>> list_copy(const fs::path& folder, OwnHashes& hashes, std::uint64_t chunk_bytes) {
  const auto found = gpu::list_model_files(folder);
  if (!found) return found.error();
  std::map<std::string, gpu::FileState> states;
  for (const gpu::ModelFile& file : *found) states.emplace(file.path, file.state);
  if (hashes.manifest()) {
    for (const gpu::ManifestEntry& entry : hashes.manifest()->files) {
      const auto state = state_of_listed(folder, entry);
      if (!state) return state.error();
      states.emplace(entry.path, *state);
    }
  }
  std::vector<CopyFile> list;
  for (const auto& [path, state] : states) {
    if (auto ok = gpu::check_manifest_path(path, folder.string()); !ok) return ok.error();
    const auto shape = make_chunk_shape(state.bytes, chunk_bytes);
    if (!shape) return shape.error();
    CopyFile& file = list.emplace_back();
    file.path = path;
    file.bytes = state.bytes;
    file.modified_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(state.modified_ns, 0));
    file.sha256 = hashes.known({path, state});
    file.shape = *shape;
  }
  return list;
}

}  // namespace tandem::net::sync
