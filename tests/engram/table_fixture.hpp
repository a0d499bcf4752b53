// A small table with known rows, written as a packed file and as two shard tensors, and file doubles that fail on
// demand.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engram/packed_header.hpp"
#include "engram/row_store.hpp"
#include "tests/engram/temporary_folder.hpp"

namespace tandem::engram::test {

// `rows` rows of random codes (no NaN) and moderate scales; the same for the same seed.
struct KnownTable {
  KnownTable(std::int64_t rows, int head_dim, unsigned seed = 1);

  RowShape shape;
  std::int64_t rows;
  std::vector<std::byte> codes;   // [rows][head_dim]
  std::vector<std::byte> scales;  // [rows][head_dim/32]

  // Writes both tensors into one file, `gap` bytes before, between and behind them.
  ShardTable write_shard(const TemporaryFolder& folder, std::size_t gap) const;
  // Writes rows [first, last) as a packed file; `table` receives what to expect from it.
  std::filesystem::path write_packed(const TemporaryFolder& folder, std::int64_t first, std::int64_t last,
                                     PackedTable& table, int layer = 1) const;
};

// Reads `ids` and returns the error, if any; checks on success that every row is the known one.
Result<void> read_and_compare(RowStore& store, const KnownTable& table, const std::vector<RowId>& ids);

// What the doubles below do; shared by all files of one opener.
struct FaultPlan {
  enum class Kind { error, short_read, end_of_file, kill };  // kill: SIGKILL to this process
  Kind kind = Kind::error;
  int fail_at = -1;  // the number of the operation (opens and reads counted together) that fails; -1 = none
  std::mutex mutex;
  int operations = 0;
  bool fired = false;

  // Counts one operation; true if it is the one that fails.
  bool strikes();
};

// Opens real files whose n-th operation fails as planned.
FileOpener failing_opener(std::shared_ptr<FaultPlan> plan);

}  // namespace tandem::engram::test
