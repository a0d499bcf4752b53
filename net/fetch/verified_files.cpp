// Size first: it is free, and wrong for most files that are not the right ones.
#include "net/fetch/verified_files.hpp"

#include <fmt/format.h>

#include "gpu/weights_files/file_hash.hpp"

namespace tandem::net::fetch {

using State = PresentFile::State;

Result<gpu::FileReceipt> hash_until_stopped(const std::filesystem::path& path, const std::stop_token& stop) {
  return gpu::hash_file(path, [&](std::uint64_t) { return !stop.stop_requested(); });
}

Result<PresentFile> VerifiedFiles::look_at(const gpu::ManifestEntry& entry, const std::stop_token& stop) {
  const auto path = folder_ / entry.path;
  const auto state = gpu::file_state(path);
  if (!state && state.error().code == ErrorCode::not_found) return PresentFile{};
  if (!state) return state.error();
  if (state->bytes != entry.bytes)
    return PresentFile{State::other, "", fmt::format("{} bytes instead of {}", state->bytes, entry.bytes)};
  std::optional<std::string> hash;
  {
    const std::lock_guard lock(mutex_);
    if (entry.sha256.empty() && !trusts_sizes_ && !noted_.contains(entry.path))
      return PresentFile{State::other, "", "no hash to tell, and the folder held another revision"};
    hash = book_.hash_of(entry.path, *state);
  }
  if (!hash) {
    const auto receipt = hash_until_stopped(path, stop);
    if (!receipt) return receipt.error();
    if (auto recorded = record(entry.path, *receipt); !recorded) return recorded.error();
    hash = receipt->sha256;
  }
  if (!entry.sha256.empty() && *hash != entry.sha256) return PresentFile{State::other, "", "another hash"};
  return PresentFile{State::right, std::move(*hash), ""};
}

Result<void> VerifiedFiles::note(const std::string& path, const gpu::FileReceipt& receipt) {
  {
    const std::lock_guard lock(mutex_);
    noted_.insert(path);
  }
  return record(path, receipt);
}

Result<void> VerifiedFiles::record(const std::string& path, const gpu::FileReceipt& receipt) {
  const std::lock_guard lock(mutex_);
  book_.note(path, receipt);
  return book_.save();
}

}  // namespace tandem::net::fetch
