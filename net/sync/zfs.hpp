// ZFS as a way to bring a model to another node: one snapshot of the dataset that holds the folder, sent whole the
// first time and afterwards as the difference to a snapshot that both sides have.
//
// The other side is reached by ssh without questions. Names are checked, because ssh hands its arguments to a shell
// there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/sync/command.hpp"

namespace tandem::net::sync {

struct ZfsSnapshot {
  std::string name;  // behind the @
  std::string guid;  // the same on both sides if the content is
  bool operator==(const ZfsSnapshot&) const = default;
};

// Reads `zfs list -H -t snapshot -o name,guid`, oldest first. Errors: bad_format.
Result<std::vector<ZfsSnapshot>> parse_snapshots(std::string_view text, const std::string& dataset);

// Reads `zfs list -H -t filesystem -o name,mountpoint` and returns the dataset under whose mount point a folder lies.
// Errors: bad_format, not_found.
Result<std::string> find_dataset(std::string_view text, const std::filesystem::path& folder);

// Whether a name of a dataset, snapshot or login consists of harmless characters only.
bool is_plain_zfs_name(std::string_view name) noexcept;

struct ZfsPlan {
  std::optional<std::string> base;  // newest snapshot that both have; nothing: everything is sent
  bool is_needed = true;            // false: the other side has the newest one, and nothing was written since
};
// `written_bytes`: since the newest local snapshot.
ZfsPlan plan_zfs(const std::vector<ZfsSnapshot>& own, const std::vector<ZfsSnapshot>& theirs,
                 std::uint64_t written_bytes, bool is_forced);

struct ZfsRequest {
  std::filesystem::path folder;
  std::string dataset;         // empty: found by the folder
  std::string remote_dataset;  // empty: the same name
  std::string login;           // [USER@]HOST for ssh
  std::string snapshot;        // name of the new snapshot
  bool is_forced = false;      // send although nothing changed; let the other side roll back what was changed there
};
// Does all of it. Returns what was done. Errors: bad_config (names), not_found (no zfs here, the folder is on no
// dataset), unavailable (a command failed, with its complaint), timeout.
Result<std::string> send_by_zfs(const ZfsRequest& request, CommandRunner& commands);

}  // namespace tandem::net::sync
