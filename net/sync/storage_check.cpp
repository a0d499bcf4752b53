// Every statement about the other node is its own, made over an authenticated channel; the bytes are compared here.
#include "net/sync/storage_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/weights_files/manifest.hpp"
#include "gpu/weights_files/model_files.hpp"
#include "gpu/weights_files/table_page.hpp"
#include "net/sync/ask_peer.hpp"
#include "net/sync/nonce_file.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;

constexpr const char* configuration_name = "config.json";
constexpr std::uint64_t page_bytes = 4096;

Result<FilePart> configuration_part(const fs::path& folder) {
  const auto state = gpu::file_state(folder / configuration_name);
  if (!state) return state.error();
  return FilePart{configuration_name, 0, std::min(state->bytes, digest_bytes_max)};
}

// The size and the last page of every file: a shard that is missing, of another size or still being received is told by
// them.
Result<void> compare_ends(Channel& channel, const fs::path& folder, const gpu::Manifest& manifest) {
  for (const gpu::ManifestEntry& entry : manifest.files) {
    const auto own = gpu::file_state(folder / entry.path);
    if (!own) return own.error();
    if (own->bytes != entry.bytes) {
      return Error{ErrorCode::mismatch, (folder / entry.path).string(), fmt::format("{} bytes", own->bytes),
                   fmt::format("{} bytes, as the manifest here says", entry.bytes)};
    }
    const std::uint64_t count = std::min<std::uint64_t>(entry.bytes, page_bytes);
    if (auto same = compare_part(channel, folder, {entry.path, entry.bytes - count, count}); !same) return same;
  }
  return {};
}

Result<std::string> check_same_revision(Channel& channel, const fs::path& folder) {
  const auto manifest = gpu::read_manifest(folder);
  if (!manifest) return manifest.error();
  const auto theirs = ask_revision(channel);
  if (!theirs) return theirs.error();
  const std::string own = gpu::manifest_hash(*manifest);
  if (own != theirs->manifest_hash) {
    return Error{ErrorCode::mismatch, channel.peer(), fmt::format("revision {:.16}", theirs->manifest_hash),
                 fmt::format("{:.16}, as here", own)};
  }
  const auto part = configuration_part(folder);
  if (!part) return part.error();
  if (auto same = compare_part(channel, folder, *part); !same) return same.error();
  if (auto same = compare_ends(channel, folder, *manifest); !same) return same.error();
  return fmt::format(
      "both nodes hold revision {:.16}, every file of its size and with its end (this one may not write there to tell "
      "more)",
      own);
}

}  // namespace

Result<std::string> check_shared(Channel& channel, const fs::path& folder) {
  const auto nonce = NonceFile::create(folder);
  if (!nonce) return check_same_revision(channel, folder);
  Message question{MessageKind::nonce};
  question.text = nonce->name();
  const auto answer = channel.ask_for(MessageKind::digest_is, question);
  if (answer && answer->sha256 == nonce->sha256())
    return std::string("a file written here was read there: both nodes see the same folder");
  if (!answer && answer.error().code != ErrorCode::not_found && answer.error().code != ErrorCode::io)
    return answer.error();
  return Error{ErrorCode::mismatch, channel.peer(), "a file written here is not seen there", "the same storage"};
}

Result<std::string> check_nfs(Channel& channel, const fs::path& folder) {
  const auto mount = ask_mount(channel);
  if (!mount) return mount.error();
  const auto faults = find_nfs_faults(mount->mount, mount->own_address);
  if (!faults.empty()) {
    return Error{ErrorCode::mismatch, channel.peer(), fmt::format("{}", fmt::join(faults, "; ")),
                 "a read-only NFS 4.2 mount over the fabric"};
  }
  const auto configuration = configuration_part(folder);
  if (!configuration) return configuration.error();
  if (auto same = compare_part(channel, folder, *configuration); !same) return same.error();
  const auto page = gpu::find_table_page(folder);
  if (!page) return page.error();
  if (*page) {
    const FilePart part{(*page)->path, (*page)->offset, (*page)->bytes};
    if (auto same = compare_part(channel, folder, part); !same) return same.error();
  }
  return fmt::format("{} is mounted read-only from {}; it reads the configuration{} as they are here",
                     mount->mount.target, mount->mount.server(), *page ? " and a page of an Engram table" : "");
}

}  // namespace tandem::net::sync
