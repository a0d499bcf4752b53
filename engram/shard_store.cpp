// The table as the official checkpoint stores it: codes and scales are two tensors, far apart in one shard or in two
// files.
#include <fmt/format.h>

#include "engram/file_row_store.hpp"

namespace tandem::engram {
namespace {

Result<TablePart> open_part(const FileExtent& extent, std::uint64_t expected_bytes, Storage& storage) {
  if (extent.bytes != expected_bytes) {
    return Error{ErrorCode::mismatch, extent.file.string(), fmt::format("an Engram tensor of {} bytes", extent.bytes),
                 fmt::format("{} bytes", expected_bytes)};
  }
  auto file = storage.open(extent.file);
  if (!file) return file.error();
  if (extent.offset > (*file)->size() || extent.bytes > (*file)->size() - extent.offset) {
    return Error{ErrorCode::bad_format, extent.file.string(), fmt::format("a file of {} bytes", (*file)->size()),
                 fmt::format("an Engram tensor at {} of {} bytes", extent.offset, extent.bytes)};
  }
  return TablePart{std::move(*file), extent.offset, 0, 0};
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_shard_store(const ShardTable& table, std::shared_ptr<Storage> storage) {
  if (table.rows < 1 || table.shape.head_dim < 1 || table.shape.head_dim % scale_columns != 0) {
    return Error{ErrorCode::invalid_argument, table.codes.file.string(),
                 fmt::format("{} rows of {}", table.rows, table.shape.head_dim), "rows of a multiple of 32 columns"};
  }
  const auto rows = static_cast<std::uint64_t>(table.rows);
  const auto code_bytes = static_cast<std::size_t>(table.shape.head_dim);
  const auto scale_bytes = static_cast<std::size_t>(table.shape.scales());
  auto codes = open_part(table.codes, rows * code_bytes, *storage);
  if (!codes) return codes.error();
  auto scales = open_part(table.scales, rows * scale_bytes, *storage);
  if (!scales) return scales.error();
  codes->code_bytes = code_bytes;
  scales->scale_bytes = scale_bytes;
  std::vector<TablePart> parts;
  parts.push_back(std::move(*codes));
  parts.push_back(std::move(*scales));
  return FileRowStore::make({table.shape, table.rows, 0, table.rows}, std::move(parts), std::move(storage));
}

}  // namespace tandem::engram
