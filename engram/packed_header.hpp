// The header of a packed Engram file: which rows of which layer it holds.
//
// Format: little-endian u64 fields: magic 0x31344E4531565344 (on disk the letters DSV1EN41), layer, first row, one past
// the last row, rows of the whole layer, bytes of a row; zeros up to byte 4096; then the rows, each its codes followed
// by its scales. Other programs write and read the same format.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engram/row_store.hpp"

namespace tandem::engram {

inline constexpr std::size_t packed_header_bytes = 4096;

// Returns the packed_header_bytes bytes that start a file of this table.
std::vector<std::byte> encode_packed_header(const PackedTable& table);

// Checks a header against what is expected. Errors: mismatch naming the first field that differs and its byte (it is no
// packed file, or one of another layer, rank, shape or version), bad_format (the header is cut short).
Result<void> check_packed_header(std::span<const std::byte> header, const PackedTable& expected,
                                 const std::string& where);

// Returns the exact size of a file of this table.
std::uint64_t packed_file_bytes(const TableInfo& info) noexcept;

}  // namespace tandem::engram
