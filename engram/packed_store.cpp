// The table of one layer and rank in a file of its own: one read a row. The file is checked before its first row is
// served.
#include <fmt/format.h>

#include "engram/aligned_buffer.hpp"
#include "engram/file_row_store.hpp"
#include "engram/packed_header.hpp"

namespace tandem::engram {
namespace {

Result<void> check_file(const InputFile& file, const PackedTable& expected) {
  const AlignedBuffer header(packed_header_bytes);
  const auto got = file.read_at(0, header.span());
  if (!got) return got.error();
  if (auto checked = check_packed_header(header.span().first(*got), expected, file.name()); !checked) return checked;
  const std::uint64_t bytes = packed_file_bytes(expected.info);
  if (file.size() != bytes) {
    return Error{ErrorCode::bad_format, file.name(), fmt::format("{} bytes", file.size()),
                 fmt::format("exactly {}", bytes)};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_packed_store(const std::filesystem::path& file, const PackedTable& expected,
                                                    std::shared_ptr<Storage> storage) {
  auto opened = storage->open(file);
  if (!opened) return opened.error();
  if (auto checked = check_file(**opened, expected); !checked) return checked.error();
  const RowShape shape = expected.info.shape;
  std::vector<TablePart> parts;
  parts.push_back({std::move(*opened), packed_header_bytes, static_cast<std::size_t>(shape.head_dim),
                   static_cast<std::size_t>(shape.scales())});
  return FileRowStore::make(expected.info, std::move(parts), std::move(storage));
}

}  // namespace tandem::engram
