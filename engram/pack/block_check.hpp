// Whether the rows of a packed file are still those that were written: block checksums against the receipt.
#pragma once

#include <functional>
#include <span>

#include "engram/input_file.hpp"
#include "engram/pack/receipt.hpp"

namespace tandem::engram {

// Told how many blocks are checked; returning false ends the pass with `cancelled`.
using BlockProgress = std::function<bool(std::size_t done)>;

// Reads the given blocks and compares. Errors: corrupt (naming the block, its rows and bytes), io, cancelled,
// out_of_range (a block the receipt does not have).
Result<void> check_blocks(const InputFile& packed, const PackedReceipt& receipt, std::span<const std::size_t> blocks,
                          const BlockProgress& progress = {});

// Returns every block of a file, or `count` of them spread evenly with the first and the last among them.
std::vector<std::size_t> all_blocks(const PackedReceipt& receipt);
std::vector<std::size_t> sample_blocks(const PackedReceipt& receipt, std::size_t count);

}  // namespace tandem::engram
