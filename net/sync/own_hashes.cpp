// Asked once a file when a copy begins, and again for files that turn out to be needed.
#include "net/sync/own_hashes.hpp"

#include <algorithm>
#include <chrono>

#include "gpu/weights_files/file_hash.hpp"

namespace tandem::net::sync {

OwnHashes::OwnHashes(std::filesystem::path folder, const std::filesystem::path& state_folder,
                     std::optional<gpu::Manifest> manifest)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      book_(gpu::ReceiptBook::open(folder_, state_folder)) {}

std::string OwnHashes::listed(const std::string& path) const {
  if (!manifest_) return {};
  const auto& entries = manifest_->files;
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), path,
                       [](const gpu::ManifestEntry& entry, const std::string& p) { return entry.path < p; });
  return at != entries.end() && at->path == path ? at->sha256 : std::string();
}

std::string OwnHashes::known(const gpu::ModelFile& file) {
  if (auto hash = listed(file.path); !hash.empty()) return hash;
  const std::lock_guard lock(mutex_);
  return book_.hash_of(file.path, file.state).value_or("");
}

Result<std::string> OwnHashes::read(const std::string& path, Channel& channel) {
  using Clock = std::chrono::steady_clock;
  const auto receipt = gpu::hash_file(folder_ / path, [&channel, last = Clock::now()](std::uint64_t) mutable {
    if (Clock::now() - last < working_every) return true;
    last = Clock::now();
    return channel.send({MessageKind::working}).has_value();
  });
  if (!receipt) return receipt.error();
  const std::lock_guard lock(mutex_);
  book_.note(path, *receipt);
  (void)book_.save();  // lost receipts cost time, nothing else
  return receipt->sha256;
}

}  // namespace tandem::net::sync
