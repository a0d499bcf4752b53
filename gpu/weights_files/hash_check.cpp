// Sizes first, receipts next, bytes last. A list that leaves out what is loaded proves nothing about it.
#include "gpu/weights_files/hash_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/weights_files/byte_count.hpp"
#include "gpu/weights_files/receipts.hpp"

namespace tandem::gpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* hashes_what = "hashes of the manifest";
constexpr const char* revision_what = "the other node's revision";

// A wrong hash does not keep a model from loading: it loads something else than was published.
WeightCheck judge_without_loading(std::string id, const char* what, std::string seen, std::vector<Error> faults) {
  WeightCheck check = WeightCheck::judge(std::move(id), what, std::move(seen), std::move(faults));
  check.stops_loading = false;
  return check;
}

// Hashes files of a folder by way of its receipts.
class FolderHasher {
 public:
  FolderHasher(const fs::path& folder, const HashCheckOptions& options)
      : folder_(folder), options_(options), book_(ReceiptBook::open(folder, options.state_folder)) {}

  // Returns the hash that the receipts have of a file in this state.
  std::optional<std::string> known(const std::string& path, const FileState& state) const {
    if (options_.depth == HashDepth::all) return std::nullopt;
    return book_.hash_of(path, state);
  }
  // Whether a file without a valid receipt is to be read.
  bool wants(const std::string& path) const { return options_.depth != HashDepth::changed || book_.has(path); }

  // Hashes files and writes their receipts; results stand in the order of `paths`.
  std::vector<Result<FileReceipt>> hash(const std::vector<std::string>& paths) {
    std::vector<fs::path> files;
    for (const std::string& path : paths) files.push_back(folder_ / path);
    HashOptions hash = options_.hash;
    hash.on_file = [&](std::size_t file, const FileReceipt& receipt) {
      book_.note(paths[file], receipt);
      save();
    };
    return hash_files(files, hash);
  }

  // What went wrong on the way without being a fault of the files.
  const std::string& note() const noexcept { return note_; }

 private:
  // At once: whoever stops the program after ten minutes does not want to wait for them again.
  void save() {
    if (auto saved = book_.save(); !saved) note_ = "; receipts could not be written: " + saved.error().message();
  }

  fs::path folder_;
  const HashCheckOptions& options_;
  ReceiptBook book_;
  std::string note_;
};

class ManifestCheck {
 public:
  ManifestCheck(const fs::path& folder, const HashCheckOptions& options) : folder_(folder), hasher_(folder, options) {}

  WeightCheck run(const Manifest& manifest) {
    compare_lists(manifest);
    std::vector<const ManifestEntry*> to_hash;
    for (const ManifestEntry& entry : manifest.files) {
      if (needs_hash(entry)) to_hash.push_back(&entry);
    }
    std::vector<std::string> paths;
    for (const ManifestEntry* entry : to_hash) paths.push_back(entry->path);
    const auto results = hasher_.hash(paths);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i]) {
        fault(results[i].error());
      } else {
        compare(*to_hash[i], results[i]->sha256);
      }
    }
    return verdict(manifest, results.size());
  }

 private:
  // Every shard below the folder would be loaded: its bytes must be vouched for. Other files are only counted.
  void compare_lists(const Manifest& manifest) {
    if (manifest.files.empty())
      fault({ErrorCode::bad_format, (folder_ / manifest_file_name).string(), "no files", "those of a model"});
    const auto files = list_model_files(folder_);
    if (!files) return fault(files.error());
    for (const ModelFile& file : *files) {
      const auto listed = std::ranges::lower_bound(manifest.files, file.path, {}, &ManifestEntry::path);
      if (listed != manifest.files.end() && listed->path == file.path) continue;
      if (file.path.ends_with(".safetensors")) {
        fault({ErrorCode::mismatch, (folder_ / file.path).string(), "a shard that the manifest does not list",
               "its size and hash there"});
      } else {
        ++unlisted_;
      }
    }
  }

  // Judges a file as far as that goes without reading it.
  bool needs_hash(const ManifestEntry& entry) {
    const auto state = file_state(folder_ / entry.path);
    if (!state) return fault(state.error()), false;
    if (state->bytes != entry.bytes) {
      fault({ErrorCode::mismatch, (folder_ / entry.path).string(), fmt::format("{} bytes", state->bytes),
             fmt::format("{}, as the manifest says", entry.bytes)});
      return false;
    }
    if (entry.sha256.empty()) return ++sizes_only_, false;
    if (const auto hash = hasher_.known(entry.path, *state)) return compare(entry, *hash), ++unchanged_, false;
    if (hasher_.wants(entry.path)) return true;
    ++never_hashed_;
    bytes_never_hashed_ += entry.bytes;
    return false;
  }

  void compare(const ManifestEntry& entry, const std::string& hash) {
    if (hash == entry.sha256) return;
    fault({ErrorCode::mismatch, (folder_ / entry.path).string(), fmt::format("sha256 {:.16}...", hash),
           fmt::format("{:.16}..., as the manifest says", entry.sha256)});
  }

  void fault(Error error) {
    if (faults_.size() < check_faults_max) faults_.push_back(std::move(error));
  }

  WeightCheck verdict(const Manifest& manifest, std::size_t hashed) {
    std::string seen = fmt::format("{} files, {} hashed now, {} unchanged since they were hashed",
                                   manifest.files.size(), hashed, unchanged_);
    if (unlisted_ > 0) seen += fmt::format(", {} more that the manifest does not list", unlisted_);
    if (sizes_only_ > 0) seen += fmt::format(", {} compared by size alone: the manifest has no hash", sizes_only_);
    seen += hasher_.note();
    if (faults_.empty() && never_hashed_ > 0) {
      return WeightCheck::skip(
          "W6", hashes_what,
          fmt::format("{} files ({}) were never hashed, their sizes are right; --hashes reads them", never_hashed_,
                      bytes_text(bytes_never_hashed_)));
    }
    return judge_without_loading("W6", hashes_what, std::move(seen), std::move(faults_));
  }

  fs::path folder_;
  FolderHasher hasher_;
  std::vector<Error> faults_;
  std::size_t unchanged_ = 0, sizes_only_ = 0, never_hashed_ = 0, unlisted_ = 0;
  std::uint64_t bytes_never_hashed_ = 0;
};

}  // namespace

WeightCheck check_hashes(const fs::path& folder, const HashCheckOptions& options) {
  const auto manifest = read_manifest(folder);
  if (manifest) return ManifestCheck(folder, options).run(*manifest);
  const bool is_missing = manifest.error().code == ErrorCode::not_found;
  if (is_missing && options.depth == HashDepth::changed) {
    return WeightCheck::skip("W6", hashes_what, fmt::format("no {}; --write-manifest makes one", manifest_file_name));
  }
  if (is_missing) {
    const Error missing{ErrorCode::not_found, (folder / manifest_file_name).string(), "not there",
                        "hashes to compare with; --write-manifest lists what lies there"};
    return judge_without_loading("W6", hashes_what, "wanted, and there is nothing to compare with", {missing});
  }
  return judge_without_loading("W6", hashes_what, "a manifest that cannot be read", {manifest.error()});
}

WeightCheck check_revision(const fs::path& folder, const PeerRevision& peer) {
  if (peer.failure) return judge_without_loading("W7", revision_what, "the other node did not say", {*peer.failure});
  if (!peer.manifest_hash) return WeightCheck::skip("W7", revision_what, peer.unknown_because);
  const auto manifest = read_manifest(folder);
  if (!manifest && manifest.error().code == ErrorCode::not_found) {
    return WeightCheck::skip("W7", revision_what, fmt::format("this node has no {}", manifest_file_name));
  }
  if (!manifest) return judge_without_loading("W7", revision_what, "", {manifest.error()});
  const std::string own = manifest_hash(*manifest);
  std::vector<Error> faults;
  if (own != *peer.manifest_hash) {
    faults.push_back({ErrorCode::mismatch, (folder / manifest_file_name).string(),
                      fmt::format("revision {:.16}... on this node", own),
                      fmt::format("{:.16}..., the other node's", *peer.manifest_hash)});
  }
  return judge_without_loading("W7", revision_what, fmt::format("both nodes hold {:.16}...", own), std::move(faults));
}

Result<Manifest> make_manifest(const fs::path& folder, const std::string& revision, const HashCheckOptions& options) {
  const auto files = list_model_files(folder);
  if (!files) return files.error();
  FolderHasher hasher(folder, options);
  Manifest manifest{revision, {}};
  std::vector<std::string> to_hash;
  for (const ModelFile& file : *files) {
    if (auto ok = check_manifest_path(file.path, folder.string()); !ok) return ok.error();
    manifest.files.push_back({file.path, file.state.bytes, hasher.known(file.path, file.state).value_or("")});
    if (manifest.files.back().sha256.empty()) to_hash.push_back(file.path);
  }
  const auto results = hasher.hash(to_hash);
  std::size_t next = 0;
  for (ManifestEntry& entry : manifest.files) {
    if (!entry.sha256.empty()) continue;
    const auto& result = results[next++];
    if (!result) return result.error();
    entry.bytes = result->state.bytes;
    entry.sha256 = result->sha256;
  }
  return manifest;
}

}  // namespace tandem::gpu
