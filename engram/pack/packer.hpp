// Packing: one rank's rows of one layer copied from the checkpoint into a file of their own, codes and scales of a row
// side by side, so that a lookup is one read instead of two.
//
// The file grows under `<out>.part` with a journal `<out>.part.journal`; whatever kills the process, the next call goes
// on behind the last flushed block. When all blocks are there they are read back from the disk and compared with their
// checksums; then come the receipt, the rename to the final name, and the removal of the journal. A file under the
// final name is always whole.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engram/pack/receipt.hpp"

namespace tandem::engram {

struct PackJob {
  ShardTable source;
  PackedTable table;          // layer and range of rows; shape and rows as the source
  std::filesystem::path out;  // final name; its folder must exist
};

struct PackProgress {
  enum class Phase { copying, verifying };
  Phase phase = Phase::copying;
  std::uint64_t bytes_done = 0;  // of this phase, earlier runs included
  std::uint64_t bytes_total = 0;
  double bytes_per_s = 0;  // of this run
  double eta_s = 0;        // until the end of this phase; 0 while the rate is unknown
};

struct PackOptions {
  int threads = 4;
  std::int64_t block_rows = default_block_rows;
  std::size_t blocks_per_sync = 64;
  bool is_forced = false;  // pack again what is there and right
  // Told about twice a second, in the calling thread; returning false ends with `cancelled` and keeps what is done.
  std::function<bool(const PackProgress&)> progress;
  std::function<void(const std::string&)> announce;  // what was found and decided; may be empty
};

struct PackOutcome {
  bool was_there = false;           // a right file stood there already: nothing was done
  std::uint64_t bytes = 0;          // size of the packed file
  std::uint64_t bytes_resumed = 0;  // of it, taken over from an earlier run
  double seconds = 0;
};

// Errors: resource (not enough space on the disk, found before anything is written where it can be), unavailable
// (another process packs the same file), corrupt (what was read back is not what was written), cancelled, io, and those
// of open_shard_store().
Result<PackOutcome> pack_table(const PackJob& job, const PackOptions& options, const std::shared_ptr<Storage>& storage);

// Returns the bytes that packing still has to take from the disk: 0 if the packed file is there.
std::uint64_t bytes_missing(const PackJob& job);

// Refuses a disk with less than `bytes` and a tenth more free at `folder`. Errors: resource, io.
Result<void> check_free_space(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace tandem::engram
