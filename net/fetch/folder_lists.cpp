// They are written durably; the new list of what is held is the wanted one's file under its final name.
#include "net/fetch/folder_lists.hpp"

#include <string_view>
#include <system_error>

#include "engram/durable_file.hpp"
#include "engram/pack/output_file.hpp"
#include "engram/text_file.hpp"

namespace tandem::net::fetch {
namespace {

namespace fs = std::filesystem;

// Begin with ".tandem": no manifest may list them.
constexpr const char* wanted_name = ".tandem-fetch.manifest";
constexpr const char* earlier_name = ".tandem-fetch.earlier";

Result<gpu::Manifest> read_list(const fs::path& path) {
  const auto text = engram::read_text(path, gpu::manifest_text_bytes_max);
  if (!text) return text.error();
  return gpu::parse_manifest(*text, path.string());
}

bool is_missing(const Result<gpu::Manifest>& list) {
  return !list && list.error().code == ErrorCode::not_found;
}

}  // namespace

FolderLists FolderLists::open(fs::path folder) {
  FolderLists lists(std::move(folder));
  // A list that a killed fetch was writing may have been its last.
  engram::remove_stale_temporaries(lists.folder_, [](std::string_view name) { return name == wanted_name; });
  lists.held_ = gpu::read_manifest(lists.folder_);
  lists.wanted_ = read_list(lists.folder_ / wanted_name);
  lists.earlier_ = read_list(lists.folder_ / earlier_name);
  return lists;
}

Result<gpu::Manifest> FolderLists::latest() const {
  return is_missing(wanted_) ? held_ : wanted_;
}

bool FolderLists::is_all_of(const std::string& revision) const {
  const auto agrees = [&](const Result<gpu::Manifest>& list) {
    return is_missing(list) || (list && list->revision == revision);
  };
  return agrees(held_) && agrees(wanted_) && agrees(earlier_);
}

std::vector<gpu::Manifest> FolderLists::all() const {
  std::vector<gpu::Manifest> lists;
  for (const auto* list : {&held_, &wanted_, &earlier_})
    if (*list) lists.push_back(**list);
  return lists;
}

// Files that the unended fetch of another revision brought must not pass for this one's after a kill.
Result<void> FolderLists::begin(const gpu::Manifest& wanted) {
  if (!is_missing(wanted_) && !(wanted_ && wanted_->revision == wanted.revision)) {
    const fs::path path = folder_ / earlier_name;
    std::error_code failed;
    fs::rename(folder_ / wanted_name, path, failed);
    if (failed) return Error{ErrorCode::io, path.string(), "rename to: " + failed.message(), ""};
  }
  return write(wanted);
}

Result<void> FolderLists::write(const gpu::Manifest& list) const {
  auto file = engram::DurableFile::create(folder_ / wanted_name);
  if (!file) return file.error();
  const std::string text = gpu::to_json(list);
  if (auto written = file->append(std::as_bytes(std::span(text))); !written) return written.error();
  return file->commit();
}

Result<void> FolderLists::end(const gpu::Manifest& held) {
  if (auto written = write(held); !written) return written;
  const fs::path path = folder_ / gpu::manifest_file_name;
  std::error_code failed;
  fs::rename(folder_ / wanted_name, path, failed);
  if (failed) return Error{ErrorCode::io, path.string(), "rename to: " + failed.message(), ""};
  fs::remove(folder_ / earlier_name, failed);  // one that stays costs trust in sizes, no more
  return engram::sync_folder_of(path);
}

}  // namespace tandem::net::fetch
