// Shape and sampled rows under one hash. Retraining changes every row, so that a few of them suffice.
#include "engram/pack/fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engram/sha256.hpp"

namespace tandem::engram {

std::vector<RowId> spread_rows(std::int64_t first_row, std::int64_t last_row, std::int64_t count) {
  const std::int64_t rows = last_row - first_row;
  const std::int64_t steps = std::min(count, rows) - 1;
  std::vector<RowId> ids;
  for (std::int64_t i = 0; i < steps; ++i) {
    ids.push_back(RowId{static_cast<std::int32_t>(first_row + (rows - 1) * i / steps)});
  }
  if (rows > 0) ids.push_back(RowId{static_cast<std::int32_t>(last_row - 1)});
  return ids;
}

Result<std::string> fingerprint(RowStore& table) {
  const TableInfo& info = table.info();
  const auto ids = spread_rows(0, info.rows, fingerprint_rows);
  std::vector<E4m3> codes(ids.size() * static_cast<std::size_t>(info.shape.head_dim));
  std::vector<E8m0> scales(ids.size() * static_cast<std::size_t>(info.shape.scales()));
  if (auto read = table.read(ids, {codes, scales}); !read) return read.error();
  const std::string shape = fmt::format("engram table {} x {}\n", info.rows, info.shape.head_dim);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(shape)));
  hash.update(std::as_bytes(std::span(codes)));
  hash.update(std::as_bytes(std::span(scales)));
  return to_hex(hash.finish());
}

}  // namespace tandem::engram
