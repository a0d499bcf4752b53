// Only folders that a list names are looked into: what else lies below a model's folder is not ours to walk through.
#include "net/fetch/stray_parts.hpp"

#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "net/fetch/part_file.hpp"

namespace tandem::net::fetch {
namespace {

namespace fs = std::filesystem;

// Returns the name of the part to which a part, a journal or a fresh journal belongs; empty for any other file.
std::string_view part_name_of(std::string_view name) {
  for (const std::string_view behind : {".new", ".journal"})
    if (name.ends_with(behind)) name.remove_suffix(behind.size());
  return name.starts_with(".tandem-") && name.ends_with(".part") ? name : std::string_view();
}

void remove_from(const fs::path& folder, const std::set<fs::path>& kept) {
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const std::string_view part = part_name_of(name);
    std::error_code ignored;
    if (!part.empty() && !kept.contains(folder / part)) fs::remove(at->path(), ignored);
  }
}

}  // namespace

void remove_stray_parts(const fs::path& folder, const std::vector<gpu::Manifest>& known, const gpu::Manifest& wanted) {
  std::set<fs::path> folders{folder}, kept;
  for (const gpu::ManifestEntry& entry : wanted.files) kept.insert(part_path(folder / entry.path));
  for (const fs::path& part : kept) folders.insert(part.parent_path());
  for (const gpu::Manifest& list : known)
    for (const gpu::ManifestEntry& entry : list.files) folders.insert((folder / entry.path).parent_path());
  for (const fs::path& place : folders) remove_from(place, kept);
}

}  // namespace tandem::net::fetch
