// One block in memory at a time.
#include "engram/pack/block_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engram/pack/crc32c.hpp"
#include "engram/packed_header.hpp"
#include "engram/range_reader.hpp"

namespace tandem::engram {
namespace {

Result<void> check_block(const InputFile& packed, const PackedReceipt& receipt, std::size_t block,
                         RangeReader& reader) {
  const TableInfo& info = receipt.table.info;
  const BlockRange range = block_range(info, receipt.block_rows, block);
  const std::uint64_t offset = packed_header_bytes + static_cast<std::uint64_t>(range.first) * info.shape.bytes();
  const std::size_t bytes = static_cast<std::size_t>(range.last - range.first) * info.shape.bytes();
  const auto content = reader.read(packed, offset, bytes);
  if (!content) return content.error();
  const std::uint32_t crc = crc32c(*content);
  if (crc == receipt.checksums[block]) return {};
  return Error{ErrorCode::corrupt,
               fmt::format("{}, block {} (rows {} to {}, bytes {} to {})", packed.name(), block,
                           info.first_row + range.first, info.first_row + range.last - 1, offset, offset + bytes - 1),
               fmt::format("checksum {:08x}", crc), fmt::format("{:08x}", receipt.checksums[block])};
}

}  // namespace

Result<void> check_blocks(const InputFile& packed, const PackedReceipt& receipt, std::span<const std::size_t> blocks,
                          const BlockProgress& progress) {
  const TableInfo& info = receipt.table.info;
  const std::int64_t rows_max = std::min(receipt.block_rows, info.last_row - info.first_row);
  RangeReader reader(static_cast<std::size_t>(rows_max) * info.shape.bytes());
  std::size_t done = 0;
  for (const std::size_t block : blocks) {
    if (block >= receipt.checksums.size()) {
      return Error{ErrorCode::out_of_range, packed.name(), fmt::format("block {}", block),
                   fmt::format("below {}", receipt.checksums.size())};
    }
    if (auto checked = check_block(packed, receipt, block, reader); !checked) return checked;
    if (progress && !progress(++done)) return Error{ErrorCode::cancelled, packed.name(), "check stopped", ""};
  }
  return {};
}

std::vector<std::size_t> all_blocks(const PackedReceipt& receipt) {
  std::vector<std::size_t> blocks(receipt.checksums.size());
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  return blocks;
}

std::vector<std::size_t> sample_blocks(const PackedReceipt& receipt, std::size_t count) {
  const std::size_t all = receipt.checksums.size();
  if (count >= all || count < 2) return all_blocks(receipt);
  std::vector<std::size_t> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back((all - 1) * i / (count - 1));
  return blocks;
}

}  // namespace tandem::engram
