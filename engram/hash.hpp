// From token classes to table rows: the n-gram hash of one Engram layer.
//
// Rows depend on the classes of the position itself and of at most `look_back` earlier positions of the same sequence,
// on nothing else: they can be fetched as soon as the tokens are known, and a rejected draft leaves no trace. Hashing a
// sequence at once or in any chunks gives the same rows as long as each chunk is given the classes right before it.
#pragma once

#include <span>

#include "engram/geometry.hpp"
#include "engram/row.hpp"

namespace tandem::engram {

// A position inside an image span: looks nothing up and hides everything before it from later n-grams.
inline constexpr ClassId dead_class = -1;

// Hashes `classes` (one chunk of one sequence) with layers[layer_index] of `geometry`.
// `before`: the classes right before the chunk, oldest first; only the last look_back() are used, and fewer mean that
// the sequence starts there. out [classes.size()][columns()]; dead positions get no_row. Errors: invalid_argument
// (layer index, size of out), out_of_range (a class that the geometry does not have).
Result<void> hash_rows(const Geometry& geometry, std::size_t layer_index, std::span<const ClassId> before,
                       std::span<const ClassId> classes, std::span<RowId> out);

}  // namespace tandem::engram
