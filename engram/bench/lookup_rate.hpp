// How fast a Reader looks up random rows, in the two ways that serving does: a prompt's thousands at a time, the next
// already asked for; and the few dozen of one decoding step.
#pragma once

#include "engram/bench/disk_limit.hpp"
#include "engram/reader.hpp"

namespace tandem::engram {

struct Lookups {
  std::size_t rows = 48;                     // of one ticket
  std::size_t in_flight = 1;                 // tickets asked for and not yet collected
  std::int64_t first_row = 0, last_row = 0;  // where the rows lie
  std::chrono::milliseconds duration{2000};
  unsigned seed = 1;
};

// Looks up rows of table 0 for the given time. per_s counts rows; the durations are those of a ticket, from prefetch()
// to the end of wait(). Errors: those of Reader.
Result<Rate> measure_lookups(Reader& reader, const Lookups& lookups);

// Writes a packed table of `info` with random rows, whole and not sparse, without leaving it in the page cache. Errors:
// io, resource.
Result<void> write_random_table(const std::filesystem::path& file, const PackedTable& table);

}  // namespace tandem::engram
