// Fingerprint of a table: tells apart two models whose tables have the same shape, at the cost of a few hundred rows.
#pragma once

#include <string>

#include "engram/row_store.hpp"

namespace tandem::engram {

inline constexpr std::int64_t fingerprint_rows = 256;

// Returns the SHA-256 (hexadecimal) over the shape of a whole table and fingerprint_rows of its rows, spread evenly and
// with the first and the last. Requires a store that holds the whole table. Errors: those of RowStore::read.
Result<std::string> fingerprint(RowStore& table);

// Returns `count` row ids from first_row to last_row - 1, spread evenly, both ends among them (fewer if there are fewer
// rows).
std::vector<RowId> spread_rows(std::int64_t first_row, std::int64_t last_row, std::int64_t count);

}  // namespace tandem::engram
