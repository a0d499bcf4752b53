// SequenceState: everything one sequence owns between steps, addressed by position.
//
// Nothing is appended by a counter: entry j of a cache, slot p of a ring and row p of an open group are functions of
// the position alone, and what a row may see follows from its own position. Therefore truncate() only lowers the
// length: whatever rejected rows left behind is invisible until the same positions are written again. It is exact while
// the rings still hold what the shorter sequence needs; truncation_floor() says down to where.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engram/error.hpp"
#include "gpu/kv_record.hpp"
#include "gpu/state/cache_layout.hpp"

namespace tandem::gpu {

class CachePools;

// What a position is made of. It is a property of the position, never of the id: where the id that image spans carry
// stands in text, or was written by the model itself, it is a token like any other.
enum class TokenKind : std::uint8_t {
  text,
  image,  // inside an image span: dead for Engram, routed with bias_vl
};

class SequenceState {
 public:
  // Made by CachePools::open; returns its lane and pages when destroyed.
  SequenceState(CachePools& pools, int lane, std::vector<std::int32_t> units, std::int64_t capacity);
  ~SequenceState();
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  // Positions that hold a token; their ids are tokens()[0, length()).
  std::int64_t length() const noexcept { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t capacity() const noexcept { return capacity_; }
  std::span<const std::int32_t> tokens() const noexcept { return tokens_; }
  std::span<const TokenKind> kinds() const noexcept { return kinds_; }  // of the same positions

  // Adds ids of one kind at the end; a forward pass over their positions must follow. Errors: out_of_range beyond the
  // capacity or beyond chunk_rows_max ids at once.
  Result<void> append(std::span<const std::int32_t> ids, TokenKind kind = TokenKind::text);
  // Forgets every position >= length. Errors: out_of_range if length is larger than the present one, or neither 0 nor
  // at least truncation_floor().
  Result<void> truncate(std::int64_t length);
  // Smallest length but 0 to which an exact truncation is possible now.
  std::int64_t truncation_floor() const noexcept;

  RecordRing window(int layer) const noexcept;
  RecordRing draft_window(int stage) const noexcept;
  // Compressed entries and index keys of the KV source at `layer`.
  PagedRecords entries(int layer) const noexcept;
  PagedRecords index_keys(int layer) const noexcept;
  // Row of an open group of the source at `layer`: head_dim key values, then head_dim gate values, FP32.
  float* open_row(int layer, std::int64_t position) const noexcept;
  std::int64_t open_slots() const noexcept;

 private:
  RecordRing ring(int index) const noexcept;

  CachePools& pools_;
  int lane_;
  std::vector<std::int32_t> units_;
  std::vector<std::vector<std::int32_t>> pages_;  // per source: page table, a function of units_ and the source's ratio
  std::vector<const std::int32_t*> placed_pages_;  // per source: the table in the pools' memory
  std::int64_t capacity_;
  std::vector<std::int32_t> tokens_;
  std::vector<TokenKind> kinds_;
  std::int64_t written_ = 0;  // one past the highest position ever written
};

}  // namespace tandem::gpu
