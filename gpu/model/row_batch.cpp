// Builds the per-row metadata from segments.
#include "gpu/model/row_batch.hpp"

namespace tandem::gpu {

void RowBatch::add(SequenceState& sequence, std::int64_t first, std::int32_t count) {
  add_block(sequence, first,
            sequence.tokens().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
}

void RowBatch::add_block(SequenceState& sequence, std::int64_t first, std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return;
  const auto count = static_cast<std::int32_t>(tokens.size());
  segments_.push_back({&sequence, first, rows(), count});
  for (std::int32_t i = 0; i < count; ++i) {
    positions_.push_back(first + i);
    tokens_.push_back(tokens[static_cast<std::size_t>(i)]);
    sequences_.push_back(&sequence);
  }
}

}  // namespace tandem::gpu
