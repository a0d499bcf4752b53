// Reservation of cache memory and the two free lists.
#include "gpu/state/cache_pools.hpp"

#include <string>
#include <utility>

namespace tandem::gpu {

CachePools::CachePools(CacheLayout layout) : layout_(std::move(layout)) {
  lanes_ = Buffer::host(static_cast<std::size_t>(layout_.limits.lanes_max) * layout_.lane_bytes());
  for (const SourceLayout& source : layout_.sources) {
    const auto records = static_cast<std::size_t>(source.pages * page_entries);
    entries_.push_back(Buffer::host(records * record_bytes(layout_.entry_format, layout_.head_dim)));
    const bool keys = source.has_index_keys;
    index_keys_.push_back(keys ? Buffer::host(records * record_bytes(layout_.index_format, layout_.index_dim))
                               : Buffer{});
  }
  // Lowest numbers are lent first: they lie at the end of the free lists.
  for (int lane = layout_.limits.lanes_max - 1; lane >= 0; --lane) free_lanes_.push_back(lane);
  for (std::int64_t unit = layout_.units - 1; unit >= 0; --unit) free_units_.push_back(static_cast<std::int32_t>(unit));
}

Result<std::unique_ptr<SequenceState>> CachePools::open(std::int64_t max_tokens) {
  if (max_tokens < 1 || max_tokens > layout_.limits.max_positions) {
    return Error{ErrorCode::out_of_range, "tokens of a sequence", std::to_string(max_tokens),
                 "1 to " + std::to_string(layout_.limits.max_positions)};
  }
  if (free_lanes_.empty()) {
    return Error{ErrorCode::resource, "lanes", "none free",
                 "fewer than " + std::to_string(layout_.limits.lanes_max) + " open"};
  }
  const std::int64_t wanted = (max_tokens + layout_.page_tokens - 1) / layout_.page_tokens;
  if (wanted > free_units()) {
    return Error{ErrorCode::resource, "page units", std::to_string(free_units()) + " free", std::to_string(wanted)};
  }
  const int lane = free_lanes_.back();
  free_lanes_.pop_back();
  std::vector<std::int32_t> units(free_units_.rbegin(), free_units_.rbegin() + wanted);
  free_units_.resize(free_units_.size() - static_cast<std::size_t>(wanted));
  return std::make_unique<SequenceState>(*this, lane, std::move(units), max_tokens);
}

void CachePools::release(int lane, const std::vector<std::int32_t>& units) {
  free_lanes_.push_back(lane);
  free_units_.insert(free_units_.end(), units.rbegin(), units.rend());
}

}  // namespace tandem::gpu
