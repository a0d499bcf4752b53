// What the indexer scored and chose, shown to a probe as the golden files have it.
//
// Tensors with a column an entry have one for every entry of the whole prompt, so that its steps can be put below each
// other. Without a probe nothing happens; what cannot be read is not shown.
#pragma once

#include <cstdint>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {

// Visible entries of position p: n_c(p) = floor((p + 1) / ratio).
std::int32_t visible_entries(std::int64_t position, int ratio) noexcept;

// "index_score" [T, entries]: sum over heads of weight times relu(query . key), formed in double precision; -infinity
// for entries that a row does not see. Candidates do not restrict it. "sel_margin" [T]: gap between the last kept and
// the first dropped score among the candidates; infinity where nothing is dropped.
void show_index_scores(const StepContext& step, const LayerRole& role, const IndexCall& call);

// "sel" [T, topk]: SEL in ascending order with -1 behind. "cand" [T, entries], of the layer that publishes: one byte
// for every entry, 1 inside a kept block.
void show_selection(const StepContext& step, const LayerRole& role, const Selection& selection);

}  // namespace tandem::gpu
