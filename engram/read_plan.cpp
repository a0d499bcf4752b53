// Sorting, deduplication and merging. Worked example, rows of 264 bytes at offset 4096, alignment 4096:
//   rows 0 1 16  ->  one read [4096, 12288): row 16 begins at 8320 and the gap to row 1's end (4624) is below a page.
#include "engram/read_plan.hpp"

#include <algorithm>

namespace tandem::engram {
namespace {

std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) noexcept {
  return value / unit * unit;
}
std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

// Returns the end of the run of rows that starts at `first` and fits one read.
std::size_t end_of_run(std::span<const std::int64_t> rows, const RowLayout& layout, std::size_t first) {
  const std::uint64_t unit = layout.file->alignment();
  const std::uint64_t begin = round_down(layout.begin_of(rows[first]), unit);
  std::size_t last = first + 1;
  while (last < rows.size()) {
    const std::uint64_t gap_begin = layout.begin_of(rows[last - 1]) + layout.row_bytes;
    const std::uint64_t next = layout.begin_of(rows[last]);
    if (next - gap_begin > merge_gap_bytes) break;
    if (round_up(next + layout.row_bytes, unit) - begin > slot_bytes) break;
    ++last;
  }
  return last;
}

}  // namespace

DistinctRows distinct_rows(std::span<const RowId> ids) {
  DistinctRows out;
  std::vector<std::size_t> order;
  order.reserve(ids.size());
  for (std::size_t place = 0; place < ids.size(); ++place) {
    (ids[place] == no_row ? out.empty : order).push_back(place);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
  for (const std::size_t place : order) {
    const std::int64_t row = index_of(ids[place]);
    if (!out.rows.empty() && out.rows.back() == row) {
      out.copies.push_back({out.places.back(), place});
    } else {
      out.rows.push_back(row);
      out.places.push_back(place);
    }
  }
  return out;
}

std::vector<PlannedRead> plan_reads(std::span<const std::int64_t> rows, const RowLayout& layout) {
  const std::uint64_t unit = layout.file->alignment();
  std::vector<PlannedRead> reads;
  for (std::size_t first = 0; first < rows.size();) {
    const std::size_t last = end_of_run(rows, layout, first);
    const std::uint64_t begin = round_down(layout.begin_of(rows[first]), unit);
    const std::uint64_t end = layout.begin_of(rows[last - 1]) + layout.row_bytes;
    const auto bytes = static_cast<std::size_t>(round_up(end, unit) - begin);
    reads.push_back({{layout.file, begin, bytes, static_cast<std::size_t>(end - begin)}, first, last});
    first = last;
  }
  return reads;
}

}  // namespace tandem::engram
