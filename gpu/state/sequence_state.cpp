// Addresses inside a sequence's lane and pages, and the exact truncation.
#include "gpu/state/sequence_state.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu {

SequenceState::SequenceState(CachePools& pools, int lane, std::vector<std::int32_t> units, std::int64_t capacity)
    : pools_(pools), lane_(lane), units_(std::move(units)), capacity_(capacity) {
  const CacheLayout& layout = pools_.layout();
  for (const SourceLayout& source : layout.sources) {
    const auto per_unit = static_cast<std::int32_t>(layout.page_tokens / (source.ratio * page_entries));
    std::vector<std::int32_t>& table = pages_.emplace_back();
    table.reserve(units_.size() * static_cast<std::size_t>(per_unit));
    for (const std::int32_t unit : units_) {
      for (std::int32_t i = 0; i < per_unit; ++i) table.push_back(unit * per_unit + i);
    }
    placed_pages_.push_back(pools_.place_pages(lane_, pages_.size() - 1, table));
  }
  tokens_.reserve(static_cast<std::size_t>(capacity_));
  kinds_.reserve(static_cast<std::size_t>(capacity_));
}

SequenceState::~SequenceState() {
  pools_.release(lane_, units_);
}

Result<void> SequenceState::append(std::span<const std::int32_t> ids, TokenKind kind) {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (count > pools_.layout().limits.chunk_rows_max) {
    return Error{ErrorCode::out_of_range, "rows of one step", std::to_string(count),
                 "at most " + std::to_string(pools_.layout().limits.chunk_rows_max)};
  }
  if (length() + count > capacity_) {
    return Error{ErrorCode::out_of_range, "sequence length", std::to_string(length() + count),
                 "at most " + std::to_string(capacity_)};
  }
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  kinds_.resize(tokens_.size(), kind);
  written_ = std::max(written_, length());
  return {};
}

Result<void> SequenceState::truncate(std::int64_t length) {
  const bool exact = length == 0 || length >= truncation_floor();
  if (length < 0 || length > this->length() || !exact) {
    return Error{ErrorCode::out_of_range, "truncate", std::to_string(length),
                 "0 or " + std::to_string(truncation_floor()) + " to " + std::to_string(this->length())};
  }
  tokens_.resize(static_cast<std::size_t>(length));
  kinds_.resize(static_cast<std::size_t>(length));
  if (length == 0) written_ = 0;  // whatever the rings hold, nobody looks back at it
  return {};
}

std::int64_t SequenceState::truncation_floor() const noexcept {
  return std::max<std::int64_t>(0, written_ - pools_.layout().rollback_rows);
}

RecordRing SequenceState::ring(int index) const noexcept {
  const CacheLayout& layout = pools_.layout();
  std::byte* base = pools_.lane(lane_) + static_cast<std::size_t>(index) * layout.ring_bytes();
  return {base, layout.window_slots, layout.head_dim, layout.window_format};
}

RecordRing SequenceState::window(int layer) const noexcept {
  return ring(layer);
}

RecordRing SequenceState::draft_window(int stage) const noexcept {
  return ring(pools_.layout().layers + stage);
}

PagedRecords SequenceState::entries(int layer) const noexcept {
  const CacheLayout& layout = pools_.layout();
  const int source = layout.source_index(layer);
  return {pools_.entry_pool(source), pages_[static_cast<std::size_t>(source)].data(), layout.head_dim,
          layout.entry_format, placed_pages_[static_cast<std::size_t>(source)]};
}

PagedRecords SequenceState::index_keys(int layer) const noexcept {
  const CacheLayout& layout = pools_.layout();
  const int source = layout.source_index(layer);
  return {pools_.index_pool(source), pages_[static_cast<std::size_t>(source)].data(), layout.index_dim,
          layout.index_format, placed_pages_[static_cast<std::size_t>(source)]};
}

float* SequenceState::open_row(int layer, std::int64_t position) const noexcept {
  const CacheLayout& layout = pools_.layout();
  const auto source = static_cast<std::size_t>(layout.source_index(layer));
  const std::size_t rings = static_cast<std::size_t>(layout.layers + layout.stages) * layout.ring_bytes();
  std::byte* base = pools_.lane(lane_) + rings + source * layout.open_group_bytes();
  return reinterpret_cast<float*>(base) + position % layout.open_slots * 2 * layout.head_dim;
}

std::int64_t SequenceState::open_slots() const noexcept {
  return pools_.layout().open_slots;
}

}  // namespace tandem::gpu
