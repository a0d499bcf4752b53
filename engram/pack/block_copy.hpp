// BlockCopy: copies blocks of rows from a checkpoint's two tensors into a packed file, each row's codes followed by its
// scales, with several threads; tells which blocks are safely on the disk.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "engram/pack/journal.hpp"
#include "engram/pack/receipt.hpp"

namespace tandem::engram {

struct BlockCopy {
  ShardTable source;
  PackedTable table;
  std::int64_t block_rows = default_block_rows;
  std::vector<std::size_t> blocks;  // what is to be copied
  int threads = 4;
  std::size_t blocks_per_sync = 64;  // how much work a crash may cost: 270 MiB of 264-byte rows
};

// Called by the calling thread of copy_blocks() after the blocks were flushed, in bounded groups, and at least twice a
// second with none. An error stops the copy and is returned.
using BlocksFlushed = std::function<Result<void>(const std::vector<FinishedBlock>& blocks)>;

// Errors: io (read, write), resource (disk full), not_found, and those of `flushed`. Blocks that were not reported may
// or may not be in the file.
Result<void> copy_blocks(const BlockCopy& copy, Storage& storage, const OutputFile& out, const BlocksFlushed& flushed);

}  // namespace tandem::engram
