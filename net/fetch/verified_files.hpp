// VerifiedFiles: which files of the folder are the ones that the manifest lists: from an earlier run, placed by hand,
// or received by this one. What was hashed gets a receipt and is not read again.
#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "gpu/weights_files/manifest.hpp"
#include "gpu/weights_files/receipts.hpp"

namespace tandem::net::fetch {

struct PresentFile {
  enum class State { absent, other, right };
  State state = State::absent;
  std::string sha256;  // of `right`
  std::string reason;  // of `other`: "N bytes instead of M", "another hash"
};

// Thread-safe.
class VerifiedFiles {
 public:
  // `trusts_sizes`: what the folder holds is of the revision that is wanted, or was placed by hand.
  VerifiedFiles(std::filesystem::path folder, bool trusts_sizes)
      : folder_(std::move(folder)), trusts_sizes_(trusts_sizes), book_(gpu::ReceiptBook::open(folder_, {})) {}

  // Compares size, then hash. Where the manifest has no hash the size alone decides, if sizes are trusted or the file
  // was noted before. Errors: io (among them: not a regular file),
  // cancelled (`stop`).
  Result<PresentFile> look_at(const gpu::ManifestEntry& entry, const std::stop_token& stop);
  // A file was hashed in this state and is now at its place. Errors: io.
  Result<void> note(const std::string& path, const gpu::FileReceipt& receipt);

 private:
  Result<void> record(const std::string& path, const gpu::FileReceipt& receipt);

  std::filesystem::path folder_;
  bool trusts_sizes_;
  std::mutex mutex_;  // guards what follows
  gpu::ReceiptBook book_;
  std::set<std::string> noted_;
};

// Hashes a file. Errors: not_found, io, mismatch (changed meanwhile), cancelled (`stop`).
Result<gpu::FileReceipt> hash_until_stopped(const std::filesystem::path& path, const std::stop_token& stop);

}  // namespace tandem::net::fetch
