// PackedReceipt: what stands beside a packed file, in `<packed file>.json`: where its rows came from and the checksum
// of every block of them. The packed format itself has no room for either, and other programs read it.
//
//   {"format": 1, "layer": 1, "first_row": 0, "last_row": 192001740, "rows": 384006168, "head_dim": 256,
//    "source": "<sha256>", "block_rows": 16384, "modified_ns": 1796000000000000000, "crc32c": ["00c0ffee", ...]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engram/row_store.hpp"

namespace tandem::engram {

// Rows under one checksum: 4.1 MiB of 264-byte rows. A multiple of 512, so that blocks of any row size are whole pages.
inline constexpr std::int64_t default_block_rows = 16'384;

struct PackedReceipt {
  PackedTable table;
  std::string source;  // fingerprint() of the table the rows were copied from
  std::int64_t block_rows = default_block_rows;
  std::int64_t modified_ns = 0;          // modification time of the packed file when all checksums were last right
  std::vector<std::uint32_t> checksums;  // CRC-32C of each block, in order; the last block may be shorter
};

// Half-open range of the rows of one block, relative to the file's first row.
struct BlockRange {
  std::int64_t first = 0, last = 0;
};

std::size_t block_count(const TableInfo& info, std::int64_t block_rows) noexcept;
BlockRange block_range(const TableInfo& info, std::int64_t block_rows, std::size_t block) noexcept;

std::filesystem::path receipt_path(const std::filesystem::path& packed);
std::string format_receipt(const PackedReceipt& receipt);
// Errors: bad_format naming the field.
Result<PackedReceipt> parse_receipt(std::string_view json, const std::string& where);

// Reads the receipt beside `packed`. Errors: not_found, io, bad_format.
Result<PackedReceipt> read_receipt(const std::filesystem::path& packed);
// Writes it so that it is there whole or not at all. Errors: io.
Result<void> write_receipt(const std::filesystem::path& packed, const PackedReceipt& receipt);

// Returns a file's modification time in nanoseconds since 1970. Errors: not_found, io.
Result<std::int64_t> modified_ns(const std::filesystem::path& file);

}  // namespace tandem::engram
