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

Error cut_short(const std::string& where, std::size_t bytes) {
  return {ErrorCode::bad_format, where, fmt::format("a header cut short at byte {}", bytes),
          fmt::format("{} bytes", packed_header_bytes)};
}

// The magic is read by eye as hexadecimal, everything else as a count.
std::string shown(std::size_t field, std::uint64_t value) {
  return field == 0 ? fmt::format("{:#018x}", value) : std::to_string(value);
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
  const auto fields = fields_of(expected);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t at = 8 * i;
    if (header.size() < at + 8) return cut_short(where, header.size());
    const std::uint64_t found = load_little_endian(header.subspan(at, 8));
    if (found == fields[i].value) continue;
    return Error{ErrorCode::mismatch, fmt::format("{}, {} at byte {}", where, fields[i].name, at), shown(i, found),
                 shown(i, fields[i].value)};
  }
  if (header.size() < packed_header_bytes) return cut_short(where, header.size());
  const auto rest = header.subspan(8 * fields.size(), packed_header_bytes - 8 * fields.size());
  const auto stray = std::find_if(rest.begin(), rest.end(), [](std::byte value) { return value != std::byte{0}; });
  if (stray == rest.end()) return {};
  // A later version would say so here; whatever it says, these rows are not known to be what they seem.
  return Error{
      ErrorCode::mismatch,
      fmt::format("{}, reserved byte {}", where, 8 * fields.size() + static_cast<std::size_t>(stray - rest.begin())),
      std::to_string(std::to_integer<int>(*stray)), "0"};
}

std::uint64_t packed_file_bytes(const TableInfo& info) noexcept {
  return packed_header_bytes + static_cast<std::uint64_t>(info.last_row - info.first_row) * info.shape.bytes();
}

}  // namespace tandem::engram
