// Lists are read, a plan is made, two commands do the work.
#include "net/sync/zfs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds list_limit{30};
constexpr std::chrono::seconds snapshot_limit{120};
constexpr std::chrono::seconds send_limit{24 * 3600};

// Lines of two columns that a tab divides.
Result<std::vector<std::pair<std::string, std::string>>> parse_columns(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> rows;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos)
      return Error{ErrorCode::bad_format, "zfs list", std::string(line.substr(0, 200)), "two columns"};
    rows.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return rows;
}

CommandLine over_ssh(const std::string& login, CommandLine command) {
  CommandLine whole{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", login};
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

CommandLine list_snapshots(const std::string& dataset) {
  return {"zfs", "list", "-H", "-t", "snapshot", "-d", "1", "-s", "creation", "-o", "name,guid", dataset};
}

// Everything that is done for one request.
class ZfsSend {
 public:
  ZfsSend(const ZfsRequest& request, CommandRunner& commands) : request_(request), commands_(commands) {}

  Result<std::string> run() {
    if (auto found = find_names(); !found) return found.error();
    const auto own = snapshots(list_snapshots(dataset_), dataset_);
    if (!own) return own.error();
    const auto theirs = remote_snapshots();
    if (!theirs) return theirs.error();
    const auto written = written_since();
    if (!written) return written.error();
    const ZfsPlan plan = plan_zfs(*own, *theirs, *written, request_.is_forced);
    if (!plan.is_needed) {
      return fmt::format("{} has {}@{}, and nothing was written since", request_.login, remote_dataset_, *plan.base);
    }
    return send(plan);
  }

 private:
  Result<void> find_names() {
    if (request_.dataset.empty()) {
      const auto text = commands_.run({"zfs", "list", "-H", "-t", "filesystem", "-o", "name,mountpoint"}, list_limit);
      if (!text) return text.error();
      auto found = find_dataset(*text, request_.folder);
      if (!found) return found.error();
      dataset_ = std::move(*found);
    } else {
      dataset_ = request_.dataset;
    }
    remote_dataset_ = request_.remote_dataset.empty() ? dataset_ : request_.remote_dataset;
    for (const std::string& name : {dataset_, remote_dataset_, request_.login, request_.snapshot}) {
      if (is_plain_zfs_name(name)) continue;
      return Error{ErrorCode::bad_config, "zfs", "the name " + name, "letters, digits and / _ - . : @ only"};
    }
    return {};
  }

  Result<std::vector<ZfsSnapshot>> snapshots(const CommandLine& command, const std::string& dataset) {
    const auto text = commands_.run(command, list_limit);
    if (!text) return text.error();
    return parse_snapshots(*text, dataset);
  }

  // A dataset that is not there yet has no snapshots; a node that cannot be reached is another matter.
  Result<std::vector<ZfsSnapshot>> remote_snapshots() {
    auto found = snapshots(over_ssh(request_.login, list_snapshots(remote_dataset_)), remote_dataset_);
    const bool is_absent = !found && found.error().found.find("does not exist") != std::string::npos;
    return is_absent ? std::vector<ZfsSnapshot>{} : found;
  }

  Result<std::uint64_t> written_since() {
    const auto text = commands_.run({"zfs", "list", "-H", "-p", "-o", "written", dataset_}, list_limit);
    if (!text) return text.error();
    std::uint64_t bytes = 0;
    const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), bytes);
    if (failed == std::errc()) return bytes;
    return Error{ErrorCode::bad_format, "zfs list", text->substr(0, 80), "a number of bytes"};
  }

  Result<std::string> send(const ZfsPlan& plan) {
    const std::string name = dataset_ + "@" + request_.snapshot;
    if (auto taken = commands_.run({"zfs", "snapshot", name}, snapshot_limit); !taken) return taken.error();
    CommandLine from{"zfs", "send"}, to{"zfs", "receive"};
    if (plan.base) from.insert(from.end(), {"-i", "@" + *plan.base});
    from.push_back(name);
    // Rolling back to a common snapshot is what force means; with a whole stream -F would replace an unrelated dataset.
    if (request_.is_forced && plan.base) to.push_back("-F");
    to.push_back(remote_dataset_);
    if (auto sent = commands_.pipe(from, over_ssh(request_.login, to), send_limit); !sent) {
      // Without the other side the snapshot is of no use, and would hold back the space of whatever is deleted later.
      (void)commands_.run({"zfs", "destroy", name}, snapshot_limit);
      return sent.error();
    }
    return fmt::format("{} was sent to {}, {}", name, request_.login,
                       plan.base ? "as the difference to @" + *plan.base : std::string("whole"));
  }

  const ZfsRequest& request_;
  CommandRunner& commands_;
  std::string dataset_, remote_dataset_;
};

}  // namespace

Result<std::vector<ZfsSnapshot>> parse_snapshots(std::string_view text, const std::string& dataset) {
  const auto rows = parse_columns(text);
  if (!rows) return rows.error();
  std::vector<ZfsSnapshot> snapshots;
  for (const auto& [name, guid] : *rows) {
    if (!name.starts_with(dataset + "@"))
      return Error{ErrorCode::bad_format, "zfs list", name, "snapshots of " + dataset};
    snapshots.push_back({name.substr(dataset.size() + 1), guid});
  }
  return snapshots;
}

Result<std::string> find_dataset(std::string_view text, const fs::path& folder) {
  const auto rows = parse_columns(text);
  if (!rows) return rows.error();
  std::error_code failed;
  const fs::path place = fs::weakly_canonical(folder, failed);
  std::string found;
  std::size_t length = 0;
  for (const auto& [name, mountpoint] : *rows) {
    const fs::path target(mountpoint);
    if (!target.is_absolute()) continue;  // "none", "legacy", "-"
    const auto rest = std::mismatch(target.begin(), target.end(), place.begin(), place.end()).first;
    if (rest != target.end() || mountpoint.size() < length) continue;
    found = name;
    length = mountpoint.size();
  }
  if (!found.empty()) return found;
  return Error{ErrorCode::not_found, place.string(), "on no ZFS dataset", "a folder below a dataset's mount point"};
}

bool is_plain_zfs_name(std::string_view name) noexcept {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_-.:@";
  return !name.empty() && name.size() <= 255 && name.front() != '-' &&
         name.find_first_not_of(plain) == std::string_view::npos;
}

ZfsPlan plan_zfs(const std::vector<ZfsSnapshot>& own, const std::vector<ZfsSnapshot>& theirs,
                 std::uint64_t written_bytes, bool is_forced) {
  const auto has_guid = [&](const ZfsSnapshot& snapshot) {
    return std::any_of(theirs.begin(), theirs.end(), [&](const ZfsSnapshot& t) { return t.guid == snapshot.guid; });
  };
  const auto common = std::find_if(own.rbegin(), own.rend(), has_guid);
  if (common == own.rend()) return {};
  const bool is_newest = common == own.rbegin();
  return {common->name, is_forced || !is_newest || written_bytes > 0};
}

Result<std::string> send_by_zfs(const ZfsRequest& request, CommandRunner& commands) {
  return ZfsSend(request, commands).run();
}

}  // namespace tandem::net::sync
