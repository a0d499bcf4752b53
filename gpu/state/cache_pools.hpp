// CachePools: all cache memory of one rank, reserved once; lends lanes and page units to sequences.
//
// Invariant: free + lent = total for lanes and for units. Which lane or unit a sequence gets never shows in its
// results. Must outlive its sequences; used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engram/error.hpp"
#include "gpu/memory.hpp"
#include "gpu/state/cache_layout.hpp"
#include "gpu/state/sequence_state.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

class CachePools {
 public:
  // Reserves everything in `memory`, which must outlive this.
  explicit CachePools(CacheLayout layout, Memory& memory = host_memory());
  CachePools(const CachePools&) = delete;
  CachePools& operator=(const CachePools&) = delete;

  const CacheLayout& layout() const noexcept { return layout_; }
  std::int64_t free_units() const noexcept { return static_cast<std::int64_t>(free_units_.size()); }
  int free_lanes() const noexcept { return static_cast<int>(free_lanes_.size()); }

  // Lends a lane and the pages of `max_tokens` positions. Errors: out_of_range (max_tokens is 0 or above
  // max_positions), resource (no lane or too few pages left).
  Result<std::unique_ptr<SequenceState>> open(std::int64_t max_tokens);

  std::byte* lane(int lane) const noexcept {
    return lanes_.data.get() + static_cast<std::size_t>(lane) * layout_.lane_bytes();
  }
  std::byte* entry_pool(int source) const noexcept { return entries_[static_cast<std::size_t>(source)].data.get(); }
  std::byte* index_pool(int source) const noexcept { return index_keys_[static_cast<std::size_t>(source)].data.get(); }

 private:
  friend class SequenceState;
  void release(int lane, const std::vector<std::int32_t>& units);
  // Copies a lane's page table of one source to where the operations read it. Returns that place, null in host memory.
  const std::int32_t* place_pages(int lane, std::size_t source, const std::vector<std::int32_t>& pages);

  CacheLayout layout_;
  Memory& memory_;
  Buffer page_tables_;  // [lanes, sources, most pages of one sequence]; empty in host memory
  Buffer lanes_;
  std::vector<Buffer> entries_;     // per source
  std::vector<Buffer> index_keys_;  // per source; empty where it owns none
  std::vector<int> free_lanes_;
  std::vector<std::int32_t> free_units_;
};

}  // namespace tandem::gpu
