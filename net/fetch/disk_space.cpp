// Sums over what is missing; a shard that is joined needs room beside its parts until they go.
#include "net/fetch/disk_space.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include "net/fetch/part_file.hpp"

namespace tandem::net::fetch {
namespace {

// Less than this beyond the need is worth a warning: journals, receipts and other users need some.
constexpr std::uint64_t spare_share = 50;

std::uint64_t missing_bytes(const std::filesystem::path& path, std::uint64_t bytes) {
  std::error_code absent;
  if (std::filesystem::file_size(path, absent) == bytes && !absent) return 0;
  struct stat part {};
  if (::stat(part_path(path).c_str(), &part) != 0) return bytes;
  // st_blocks counts 512 bytes whatever the file system's block is.
  return bytes - std::min(bytes, static_cast<std::uint64_t>(part.st_blocks) * 512);
}

}  // namespace

SpaceNeed space_need(const std::filesystem::path& folder, const std::vector<gpu::ManifestEntry>& files,
                     const std::vector<Join>& joins, bool keep_parts) {
  SpaceNeed need;
  for (const gpu::ManifestEntry& file : files) {
    need.fetching = gpu::add_bytes(need.fetching, missing_bytes(folder / file.path, file.bytes));
  }
  for (const Join& join : joins) {
    const std::uint64_t bytes = missing_bytes(folder / join.whole.path, join.whole.bytes);
    need.joining = keep_parts ? gpu::add_bytes(need.joining, bytes) : std::max(need.joining, bytes);
  }
  return need;
}

SpaceVerdict judge_space(const SpaceNeed& need, std::uint64_t available) {
  SpaceVerdict verdict;
  verdict.fits = need.all() <= available;
  if (need.all() == 0 || available >= gpu::add_bytes(need.all(), need.all() / spare_share)) return verdict;
  verdict.warning = fmt::format("{} free, {} needed", gpu::bytes_text(available), gpu::bytes_text(need.all()));
  if (need.joining > 0)
    verdict.warning += fmt::format(" ({} of it while parts are joined)", gpu::bytes_text(need.joining));
  return verdict;
}

}  // namespace tandem::net::fetch
