// RowBatch: the rows of one forward pass, whatever they are: prefill chunks, decode rows and verify rows of several
// sequences.
//
// A row is one position of one sequence; the rows of a sequence are consecutive and ascending. Blocks look only at a
// row's own metadata, so a row cannot tell with whom it shares the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/state/sequence_state.hpp"

namespace tandem::gpu {

// Consecutive rows of one sequence.
struct Segment {
  SequenceState* sequence = nullptr;
  std::int64_t first_position = 0;
  std::int32_t first_row = 0;
  std::int32_t count = 0;
};

class RowBatch {
 public:
  // Adds positions [first, first + count) of `sequence`, whose tokens it already holds.
  void add(SequenceState& sequence, std::int64_t first, std::int32_t count);

  // Adds rows at positions from `first` on with these tokens, which the sequence does not hold: a draft block, always
  // text.
  void add_block(SequenceState& sequence, std::int64_t first, std::span<const std::int32_t> tokens);

  std::int32_t rows() const noexcept { return static_cast<std::int32_t>(positions_.size()); }
  std::span<const Segment> segments() const noexcept { return segments_; }
  std::span<const std::int64_t> positions() const noexcept { return positions_; }
  std::span<const std::int32_t> tokens() const noexcept { return tokens_; }
  SequenceState& sequence(std::int32_t row) const noexcept { return *sequences_[static_cast<std::size_t>(row)]; }
  std::int64_t position(std::int32_t row) const noexcept { return positions_[static_cast<std::size_t>(row)]; }
  std::int32_t token(std::int32_t row) const noexcept { return tokens_[static_cast<std::size_t>(row)]; }
  bool is_image(std::int32_t row) const noexcept { return kinds_[static_cast<std::size_t>(row)] == TokenKind::image; }

 private:
  void add_rows(const Segment& segment, std::span<const std::int32_t> tokens);

  std::vector<Segment> segments_;
  std::vector<std::int64_t> positions_;
  std::vector<std::int32_t> tokens_;
  std::vector<TokenKind> kinds_;
  std::vector<SequenceState*> sequences_;
};

}  // namespace tandem::gpu
