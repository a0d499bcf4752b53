// Where a layer's rows come from at run time: packed files if they are this table's, the checkpoint's shards otherwise.
//
// A packed file is an optimisation and never a source of truth: one that belongs to another model, layer or rank is
// announced and passed over; one that should be right and is damaged stops the rank, because somebody relies on it.
#pragma once

#include <functional>
#include <vector>

#include "engram/geometry.hpp"
#include "engram/row_store.hpp"

namespace tandem::engram {

// A packed file that may be there, and the rows it must then hold.
struct PackedCandidate {
  std::filesystem::path file;
  std::int64_t first_row = 0, last_row = 0;
};

struct TableRequest {
  int layer = 0;
  ShardTable source;
  std::vector<PackedCandidate> packed;  // none of them need exist
};

using Announce = std::function<void(const std::string&)>;

// Returns a store of the whole table. Each packed file was compared with the source by its fingerprint and by rows, and
// with its receipt by checksums: a sample of blocks, or all of them (a pass over the file, announced) if its
// modification time is not the receipt's. A file without a receipt is compared by rows alone.
// Errors: corrupt (checksums, rows), bad_format (truncated), io, and those of open_shard_store().
Result<std::unique_ptr<RowStore>> open_table(const TableRequest& request, const std::shared_ptr<Storage>& storage,
                                             const Announce& announce);

// Returns the packed files of a layer that lie in a folder, whatever the rank and the number of ranks in their names,
// with the rows that such a rank owns. Nothing if there is no such folder.
std::vector<PackedCandidate> find_packed_files(const std::filesystem::path& folder, const Geometry& geometry,
                                               std::size_t layer_index);

// Returns the name under which pack writes and serving looks: "engram-l<layer>-r<rank>of<ranks>.bin".
std::string packed_file_name(int layer, int rank, int ranks);

}  // namespace tandem::engram
