// W6 and W7: the bytes of a model folder against its manifest, and the manifest against another node's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "gpu/weights_files/file_hash.hpp"
#include "gpu/weights_files/manifest.hpp"
#include "gpu/weights_files/weight_check.hpp"

namespace tandem::gpu {

// Which files of the manifest are read.
enum class HashDepth : std::uint8_t {
  changed,     // those that were hashed once and changed since
  unverified,  // also those that were never hashed
  all,         // every one, whatever the receipts say
};

struct HashCheckOptions {
  HashDepth depth = HashDepth::changed;
  std::filesystem::path state_folder;  // second place of receipts; may be empty
  HashOptions hash;
};

// W6: every file of the manifest is there with its size, and with its hash as far as `depth` says; every shard of the
// folder is in the manifest, which lists at least one file. Receipts of what was hashed are written. Without a manifest
// it fails where hashes are wanted and is skipped otherwise; skipped, too, if files are left that were never hashed.
WeightCheck check_hashes(const std::filesystem::path& folder, const HashCheckOptions& options);

// What is known about the other node: its manifest's hash, why nobody asked for it, or what went wrong on asking.
struct PeerRevision {
  std::optional<std::string> manifest_hash;
  std::string unknown_because;
  std::optional<Error> failure;
};

// W7: both nodes hold the same revision. Skipped if nobody asked or a node has no manifest; a node that was to be asked
// and does not answer fails it.
WeightCheck check_revision(const std::filesystem::path& folder, const PeerRevision& peer);

// Returns a manifest of what lies in a folder. Files are hashed unless a receipt has them (HashDepth::all: whatever
// the receipts say); receipts are written. Errors: those of list_model_files() and hash_files().
Result<Manifest> make_manifest(const std::filesystem::path& folder, const std::string& revision,
                               const HashCheckOptions& options);

}  // namespace tandem::gpu
