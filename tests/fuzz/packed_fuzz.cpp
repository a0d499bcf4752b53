// Fuzzes what is read of a packed Engram file before a row is believed: its header and its receipt.
//
// The header's check is compared with the plain rule: right is byte for byte what we would have written; a beginning of
// that is cut short; all else belongs to somebody else. A receipt that is accepted must come back the same from its own
// text. The first byte of the input chooses: 'h' header, anything else receipt.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engram/pack/receipt.hpp"
#include "engram/packed_header.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace tandem;
using namespace tandem::engram;
using fuzz::require;

void check_header(std::span<const std::byte> header) {
  static const PackedTable expected{14, {{256}, 384'016'682, 192'007'016, 384'016'682}};
  static const std::vector<std::byte> right = encode_packed_header(expected);
  const auto checked = check_packed_header(header, expected, "fuzz");
  const std::size_t common = std::min(header.size(), right.size());
  // A header that is cut inside a field says nothing about that field.
  const std::size_t fields = header.size() < 48 ? header.size() / 8 * 8 : common;
  if (!std::equal(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(fields, 48)),
                  header.begin())) {
    require(!checked && checked.error().code == ErrorCode::mismatch);
  } else if (header.size() < right.size()) {
    require(!checked && checked.error().code == ErrorCode::bad_format);
  } else {
    const bool is_right = std::equal(right.begin(), right.end(), header.begin());
    require(checked.has_value() == is_right);
    require(is_right || checked.error().code == ErrorCode::mismatch);
  }
}

void check_receipt(std::string_view text) {
  const auto receipt = parse_receipt(text, "fuzz");
  if (!receipt) {
    require(receipt.error().code == ErrorCode::bad_format);
    return;
  }
  const TableInfo& info = receipt->table.info;
  require(0 <= info.first_row && info.first_row < info.last_row && info.last_row <= info.rows);
  require(receipt->checksums.size() == block_count(info, receipt->block_rows));
  // Only a fingerprint of ours is written without quoting.
  if (receipt->source.find_first_not_of("0123456789abcdef") != std::string::npos) return;
  const std::string written = format_receipt(*receipt);
  const auto again = parse_receipt(written, "fuzz");
  require(again.has_value());
  require(format_receipt(*again) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] == 'h') {
    check_header(std::as_bytes(rest));
  } else {
    check_receipt({reinterpret_cast<const char*>(rest.data()), rest.size()});
  }
  return 0;
}
