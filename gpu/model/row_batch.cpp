// Builds the per-row metadata from segments.
#include "gpu/model/row_batch.hpp"

namespace tandem::gpu {

void RowBatch::add(SequenceState& sequence, std::int64_t first, std::int32_t count) {
  const auto at = static_cast<std::size_t>(first), size = static_cast<std::size_t>(count);
  add_rows({&sequence, first, rows(), count}, sequence.tokens().subspan(at, size));
  const auto kinds = sequence.kinds().subspan(at, size);
  kinds_.insert(kinds_.end(), kinds.begin(), kinds.end());
}

void RowBatch::add_block(SequenceState& sequence, std::int64_t first, std::span<const std::int32_t> tokens) {
  add_rows({&sequence, first, rows(), static_cast<std::int32_t>(tokens.size())}, tokens);
  kinds_.resize(tokens_.size(), TokenKind::text);
}

void RowBatch::add_rows(const Segment& segment, std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return;
  segments_.push_back(segment);
  for (std::int32_t i = 0; i < segment.count; ++i) {
    positions_.push_back(segment.first_position + i);
    tokens_.push_back(tokens[static_cast<std::size_t>(i)]);
    sequences_.push_back(segment.sequence);
  }
}

}  // namespace tandem::gpu
