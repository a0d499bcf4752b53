// Four-way sets with a clock of uses.
#include "engram/row_cache.hpp"

#include <algorithm>

namespace tandem::engram {

RowCache::RowCache(RowShape shape, std::size_t rows)
    : shape_(shape),
      slots_((rows + ways - 1) / ways * ways),
      codes_(slots_.size() * static_cast<std::size_t>(shape.head_dim)),
      scales_(slots_.size() * static_cast<std::size_t>(shape.scales())) {}

std::size_t RowCache::first_slot(RowId id) const noexcept {
  // Fibonacci hashing: neighbouring rows spread over all sets.
  const std::uint64_t spread = static_cast<std::uint64_t>(index_of(id)) * 0x9E3779B97F4A7C15ULL >> 32;
  return spread % (slots_.size() / ways) * ways;
}

std::size_t RowCache::slot_of(RowId id) const noexcept {
  if (slots_.empty() || id == no_row) return slots_.size();
  const std::size_t first = first_slot(id);
  for (std::size_t slot = first; slot < first + ways; ++slot) {
    if (slots_[slot].id == id) return slot;
  }
  return slots_.size();
}

bool RowCache::find(RowId id, RowBlock out) noexcept {
  const std::size_t slot = slot_of(id);
  if (slot == slots_.size()) return false;
  slots_[slot].used = ++clock_;
  std::copy_n(codes_.begin() + static_cast<std::ptrdiff_t>(slot * out.codes.size()), out.codes.size(),
              out.codes.begin());
  std::copy_n(scales_.begin() + static_cast<std::ptrdiff_t>(slot * out.scales.size()), out.scales.size(),
              out.scales.begin());
  return true;
}

void RowCache::insert(RowId id, std::span<const E4m3> codes, std::span<const E8m0> scales) noexcept {
  if (slots_.empty() || id == no_row || slot_of(id) != slots_.size()) return;
  const std::size_t first = first_slot(id);
  std::size_t oldest = first;
  for (std::size_t slot = first; slot < first + ways; ++slot) {
    if (slots_[slot].used < slots_[oldest].used) oldest = slot;
  }
  slots_[oldest] = {id, ++clock_};
  std::copy(codes.begin(), codes.end(), codes_.begin() + static_cast<std::ptrdiff_t>(oldest * codes.size()));
  std::copy(scales.begin(), scales.end(), scales_.begin() + static_cast<std::ptrdiff_t>(oldest * scales.size()));
}

}  // namespace tandem::engram
