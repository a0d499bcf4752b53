// Reservation of cache memory and the two free lists.
#include "gpu/state/cache_pools.hpp"

#include <string>
#include <utility>

namespace tandem::gpu {
namespace {

// Pages of the longest sequence in the pool of ratio 1, which has the most.
std::int64_t pages_max(const CacheLayout& layout) {
  const std::int64_t units = (layout.limits.max_positions + layout.page_tokens - 1) / layout.page_tokens;
  return units * (layout.page_tokens / page_entries);
}

}  // namespace

CachePools::CachePools(CacheLayout layout, Memory& memory) : layout_(std::move(layout)), memory_(memory) {
  lanes_ = memory_.allocate(static_cast<std::size_t>(layout_.limits.lanes_max) * layout_.lane_bytes());
  for (const SourceLayout& source : layout_.sources) {
    const auto records = static_cast<std::size_t>(source.pages * page_entries);
    entries_.push_back(memory_.allocate(records * record_bytes(layout_.entry_format, layout_.head_dim)));
    const bool keys = source.has_index_keys;
    index_keys_.push_back(keys ? memory_.allocate(records * record_bytes(layout_.index_format, layout_.index_dim))
                               : Buffer{});
  }
  if (!memory_.is_host()) {
    const auto tables = static_cast<std::size_t>(layout_.limits.lanes_max) * layout_.sources.size();
    page_tables_ = memory_.allocate(tables * static_cast<std::size_t>(pages_max(layout_)) * sizeof(std::int32_t));
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

const std::int32_t* CachePools::place_pages(int lane, std::size_t source, const std::vector<std::int32_t>& pages) {
  if (memory_.is_host()) return nullptr;
  const std::size_t table = static_cast<std::size_t>(lane) * layout_.sources.size() + source;
  auto* place = page_tables_.as<std::int32_t>() + table * static_cast<std::size_t>(pages_max(layout_));
  memory_.upload(std::as_bytes(std::span(pages)), place);
  return place;
}

}  // namespace tandem::gpu
