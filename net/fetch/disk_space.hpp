// Is there room for what is missing? Asked before the first byte: a full disk after hours helps nobody.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpu/weights_files/byte_count.hpp"
#include "gpu/weights_files/manifest.hpp"
#include "net/fetch/part_join.hpp"

namespace tandem::net::fetch {

struct SpaceNeed {
  std::uint64_t fetching = 0;  // bytes of missing files, less what earlier runs took already
  std::uint64_t joining = 0;   // beyond that, while the largest shard is joined from its parts
  std::uint64_t all() const noexcept { return gpu::add_bytes(fetching, joining); }
};

// `files` are fetched, `joins` made of them afterwards, one after the other.
SpaceNeed space_need(const std::filesystem::path& folder, const std::vector<gpu::ManifestEntry>& files,
                     const std::vector<Join>& joins, bool keep_parts);

// What free space says about a need.
struct SpaceVerdict {
  bool fits = true;
  std::string warning;  // empty = more than enough
};
SpaceVerdict judge_space(const SpaceNeed& need, std::uint64_t available);

}  // namespace tandem::net::fetch
