// RowStore: one layer's table on storage, read by row number.
//
// The tables (94 GiB a layer) never fit in memory: rows are read on demand, sorted, without duplicates, neighbours
// together. A store fails closed: every row comes back as it is on storage or the whole read is an error, never a stale
// or zero row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "engram/error.hpp"
#include "engram/row.hpp"
#include "engram/storage.hpp"

namespace tandem::engram {

struct TableInfo {
  RowShape shape;
  std::int64_t rows = 0;       // rows of the whole table: every id is below
  std::int64_t first_row = 0;  // rows [first_row, last_row) are in this store
  std::int64_t last_row = 0;
};

class RowStore {
 public:
  virtual ~RowStore() = default;
  virtual const TableInfo& info() const noexcept = 0;
  // Writes row ids[i] to place i of `out`; any order, duplicates welcome; no_row gives zeros. Thread-safe.
  // Errors: out_of_range (an id that this store does not hold), io (read error, short read), corrupt (a row with a NaN,
  // named by file and row), invalid_argument (size of out). After an error the contents of `out` are undefined.
  virtual Result<void> read(std::span<const RowId> ids, RowBlock out) = 0;
};

// Where a tensor's bytes lie: a row-major table without padding between rows.
struct FileExtent {
  std::filesystem::path file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// The two tensors of a checkpoint: layers.L.engram.embed.weight (F8_E4M3 [rows, head_dim]) and .scale (F8_E8M0 [rows,
// head_dim/32]).
struct ShardTable {
  RowShape shape;
  std::int64_t rows = 0;
  FileExtent codes;
  FileExtent scales;
};

// Opens a table inside checkpoint shards: two reads a row. Errors: mismatch (extent size), bad_format (an extent beyond
// its file's end), not_found, io.
Result<std::unique_ptr<RowStore>> open_shard_store(const ShardTable& table, std::shared_ptr<Storage> storage);

// What a packed file (one layer, one rank) must say about itself to be used.
struct PackedTable {
  int layer = 0;
  TableInfo info;
};

// Opens a packed file: one read a row. Errors: mismatch (another layer, rank, shape or version, or no packed file at
// all: the caller may use the source instead and say so), bad_format (this very file, but not exactly header + rows: it
// is damaged and must not be passed over in silence), not_found, io.
Result<std::unique_ptr<RowStore>> open_packed_store(const std::filesystem::path& file, const PackedTable& expected,
                                                    std::shared_ptr<Storage> storage);

// Reads `samples` rows spread over the store and checks that their values can be Engram rows: finite, mean near 0, both
// signs. Catches rows misread as integers or shifted in the file. A store of at most whole_check_bytes is read whole,
// so that its NaNs are told now and not by a request. Errors: corrupt, and those of read().
inline constexpr std::int64_t whole_check_bytes = std::int64_t{64} << 20;
Result<void> check_rows(RowStore& store, std::int64_t samples = 4096);

}  // namespace tandem::engram
