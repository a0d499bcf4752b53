// OwnHashes: hashes of the files on this side of a copy, from the cheapest source that knows them: the manifest, the
// receipts, or the file itself.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "gpu/weights_files/model_files.hpp"
#include "gpu/weights_files/receipts.hpp"
#include "net/sync/channel.hpp"

namespace tandem::net::sync {

class OwnHashes {
 public:
  // `state_folder` may be empty, see ReceiptBook. A manifest is believed: a file that is not what it says is refused by
  // the receiver, who compares.
  OwnHashes(std::filesystem::path folder, const std::filesystem::path& state_folder,
            std::optional<gpu::Manifest> manifest);

  // Returns "" if nobody knows without reading the file.
  std::string known(const gpu::ModelFile& file);
  // Returns what the manifest says, or "".
  std::string listed(const std::string& path) const;
  // Reads and hashes a file, keeping the channel alive meanwhile, and writes its receipt. Any thread. Errors: those of
  // hash_file().
  Result<std::string> read(const std::string& path, Channel& channel);

  const std::optional<gpu::Manifest>& manifest() const noexcept { return manifest_; }

 private:
  const std::filesystem::path folder_;
  const std::optional<gpu::Manifest> manifest_;
  std::mutex mutex_;  // guards the book
  gpu::ReceiptBook book_;
};

}  // namespace tandem::net::sync
