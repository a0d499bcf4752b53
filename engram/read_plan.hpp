// Which reads fetch a set of rows: sorted, each row once, neighbours together, aligned as the file wants it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engram/input_file.hpp"
#include "engram/io_engine.hpp"
#include "engram/row.hpp"

namespace tandem::engram {

// The distinct rows of a request and the places where they go.
struct DistinctRows {
  struct Copy {
    std::size_t from = 0, to = 0;  // places in the output
  };
  std::vector<std::int64_t> rows;   // ascending, without duplicates
  std::vector<std::size_t> places;  // places[i]: where rows[i] goes first
  std::vector<Copy> copies;         // further places of the same rows
  std::vector<std::size_t> empty;   // places of no_row
};

DistinctRows distinct_rows(std::span<const RowId> ids);

// A table inside a file: row r (first_row <= r) lies at offset + (r - first_row) * row_bytes.
struct RowLayout {
  const InputFile* file = nullptr;
  std::uint64_t offset = 0;
  std::int64_t first_row = 0;
  std::size_t row_bytes = 0;

  std::uint64_t begin_of(std::int64_t row) const noexcept {
    return offset + static_cast<std::uint64_t>(row - first_row) * row_bytes;
  }
};

// One read and the distinct rows [first, last) that it covers completely.
struct PlannedRead {
  ReadRequest request;
  std::size_t first = 0, last = 0;
};

// Rows whose gap in the file is at most this share a read: a skipped page costs less than another request.
inline constexpr std::uint64_t merge_gap_bytes = 4096;

// Returns the reads for `rows` (ascending, distinct), each at most slot_bytes long. Requires row_bytes + 2 * alignment
// <= slot_bytes.
std::vector<PlannedRead> plan_reads(std::span<const std::int64_t> rows, const RowLayout& layout);

}  // namespace tandem::engram
