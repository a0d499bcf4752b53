// The six fields in their order, written and compared by one table.
#include "engram/packed_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tandem::engram {
namespace {

constexpr std::uint64_t magic = 0x31344E4531565344;

struct Field {
  const char* name;
  std::uint64_t value;
};

std::array<Field, 6> fields_of(const PackedTable& table) {
  return {{{"magic", magic},
           {"layer", static_cast<std::uint64_t>(table.layer)},
           {"first row", static_cast<std::uint64_t>(table.info.first_row)},
           {"last row", static_cast<std::uint64_t>(table.info.last_row)},
           {"rows of the layer", static_cast<std::uint64_t>(table.info.rows)},
           {"bytes of a row", table.info.shape.bytes()}}};
}

std::uint64_t load_little_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace

std::vector<std::byte> encode_packed_header(const PackedTable& table) {
  std::vector<std::byte> header(packed_header_bytes);
  std::size_t at = 0;
  for (const Field& field : fields_of(table)) {
    for (int shift = 0; shift < 64; shift += 8) header[at++] = static_cast<std::byte>(field.value >> shift);
  }
  return header;
}

Result<void> check_packed_header(std::span<const std::byte> header, const PackedTable& expected,
                                 const std::string& where) {
  if (header.size() < packed_header_bytes || load_little_endian(header) != magic) {
    return Error{ErrorCode::bad_format, where, "no packed Engram file", "a header that starts with DSV1EN41"};
  }
  std::size_t at = 0;
  for (const Field& field : fields_of(expected)) {
    const std::uint64_t found = load_little_endian(header.subspan(at, 8));
    if (found != field.value) {
      return Error{ErrorCode::mismatch, fmt::format("{}, {}", where, field.name), std::to_string(found),
                   std::to_string(field.value)};
    }
    at += 8;
  }
  const auto rest = header.subspan(at, packed_header_bytes - at);
  if (std::any_of(rest.begin(), rest.end(), [](std::byte value) { return value != std::byte{0}; })) {
    return Error{ErrorCode::bad_format, where, "stray bytes in the header", "zeros"};
  }
  return {};
}

std::uint64_t packed_file_bytes(const TableInfo& info) noexcept {
  return packed_header_bytes + static_cast<std::uint64_t>(info.last_row - info.first_row) * info.shape.bytes();
}

}  // namespace tandem::engram
