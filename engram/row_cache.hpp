// RowCache: the most recently read rows of one table, in a fixed amount of memory. Not thread-safe: the reader's thread
// owns it.
//
// Set-associative: a row may stand in one of four slots chosen by its number; the least recently used of the four makes
// room. Rows never change, so nothing is ever invalidated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engram/row.hpp"

namespace tandem::engram {

class RowCache {
 public:
  // Room for at least `rows` rows; 0 makes a cache that keeps nothing.
  RowCache(RowShape shape, std::size_t rows);

  std::size_t capacity() const noexcept { return slots_.size(); }
  // Copies the row to `out` (one row) and returns true if it is here.
  bool find(RowId id, RowBlock out) noexcept;
  // Keeps a copy of the row, replacing another if its set is full. Does nothing if it is here already.
  void insert(RowId id, std::span<const E4m3> codes, std::span<const E8m0> scales) noexcept;

 private:
  struct Slot {
    RowId id = no_row;
    std::uint64_t used = 0;
  };
  static constexpr std::size_t ways = 4;

  std::size_t first_slot(RowId id) const noexcept;
  std::size_t slot_of(RowId id) const noexcept;  // slots_.size() if it is not here

  RowShape shape_;
  std::vector<Slot> slots_;
  std::vector<E4m3> codes_;   // [slots][head_dim]
  std::vector<E8m0> scales_;  // [slots][head_dim/32]
  std::uint64_t clock_ = 0;
};

}  // namespace tandem::engram
