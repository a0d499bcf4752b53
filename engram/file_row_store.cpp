// Reading: check every id first, plan the reads of all parts, run them as one batch, then fill in repeated and empty
// rows.
#include "engram/file_row_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tandem::engram {
namespace {

// Places of one output array: item i is `bytes` long.
struct Places {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::byte* operator[](std::size_t place) const noexcept { return base + place * bytes; }
};

template <class T>
Places places(std::span<T> out, int per_row) noexcept {
  return {std::as_writable_bytes(out).data(), static_cast<std::size_t>(per_row)};
}

void finish_rows(const DistinctRows& distinct, const Places& out) {
  for (const auto& copy : distinct.copies) std::memcpy(out[copy.to], out[copy.from], out.bytes);
  for (const std::size_t place : distinct.empty) std::memset(out[place], 0, out.bytes);
}

template <class T>
std::span<const T> row_of(std::span<T> all, int per_row, std::size_t place) noexcept {
  const auto length = static_cast<std::size_t>(per_row);
  return all.subspan(place * length, length);
}

// Without an early end, so that it becomes a few vector instructions.
template <class T>
bool has_nan(std::span<const T> row) noexcept {
  unsigned found = 0;
  for (const T value : row) found |= is_nan(value) ? 1U : 0U;
  return found != 0;
}

}  // namespace

FileRowStore::FileRowStore(const TableInfo& info, std::vector<TablePart> parts, std::shared_ptr<Storage> storage)
    : info_(info), parts_(std::move(parts)), storage_(std::move(storage)) {}

Result<std::unique_ptr<RowStore>> FileRowStore::make(const TableInfo& info, std::vector<TablePart> parts,
                                                     std::shared_ptr<Storage> storage) {
  const bool is_range = 0 <= info.first_row && info.first_row < info.last_row && info.last_row <= info.rows;
  if (!is_range || info.shape.head_dim <= 0 || info.shape.head_dim % scale_columns != 0) {
    return Error{
        ErrorCode::invalid_argument, "Engram table",
        fmt::format("rows {} to {} of {}, head_dim {}", info.first_row, info.last_row, info.rows, info.shape.head_dim),
        "a range of rows and a head_dim that is a multiple of 32"};
  }
  for (const TablePart& part : parts) {
    if (part.row_bytes() + 2 * part.file->alignment() > slot_bytes) {
      return Error{ErrorCode::bad_config, part.file->name(), fmt::format("rows of {} bytes", part.row_bytes()),
                   fmt::format("at most {} bytes a read", slot_bytes)};
    }
  }
  return std::unique_ptr<RowStore>(std::make_unique<FileRowStore>(info, std::move(parts), std::move(storage)));
}

Result<void> FileRowStore::check(std::span<const RowId> ids, const RowBlock& out) const {
  const auto head_dim = static_cast<std::size_t>(info_.shape.head_dim);
  const auto scales = static_cast<std::size_t>(info_.shape.scales());
  if (out.codes.size() != ids.size() * head_dim || out.scales.size() != ids.size() * scales) {
    return Error{ErrorCode::invalid_argument, parts_.front().file->name(),
                 fmt::format("room for {} codes and {} scales", out.codes.size(), out.scales.size()),
                 fmt::format("{} rows of {} and {}", ids.size(), head_dim, scales)};
  }
  for (const RowId id : ids) {
    const std::int64_t row = index_of(id);
    if (id != no_row && (row < info_.first_row || row >= info_.last_row)) {
      return Error{ErrorCode::out_of_range, parts_.front().file->name(), fmt::format("row {}", row),
                   fmt::format("{} to {}", info_.first_row, info_.last_row - 1)};
    }
  }
  return {};
}

Result<void> FileRowStore::fetch(const DistinctRows& distinct, const RowBlock& out) {
  struct Target {
    const TablePart* part;
    RowLayout layout;
    PlannedRead read;
  };
  std::vector<Target> targets;
  std::vector<ReadRequest> requests;
  for (const TablePart& part : parts_) {
    const RowLayout layout{part.file.get(), part.offset, info_.first_row, part.row_bytes()};
    for (const PlannedRead& read : plan_reads(distinct.rows, layout)) {
      targets.push_back({&part, layout, read});
      requests.push_back(read.request);
    }
  }
  const Places codes = places(out.codes, info_.shape.head_dim);
  const Places scales = places(out.scales, info_.shape.scales());
  // Called by several threads, each for rows of its own.
  const auto scatter = [&](std::size_t index, std::span<const std::byte> bytes) {
    const auto& [part, layout, read] = targets[index];
    for (std::size_t i = read.first; i < read.last; ++i) {
      const std::byte* row = bytes.data() + (layout.begin_of(distinct.rows[i]) - read.request.offset);
      if (part->code_bytes != 0) std::memcpy(codes[distinct.places[i]], row, part->code_bytes);
      if (part->scale_bytes != 0) std::memcpy(scales[distinct.places[i]], row + part->code_bytes, part->scale_bytes);
    }
  };
  return storage_->engine().run(requests, scatter);
}

Result<void> FileRowStore::check_numbers(const DistinctRows& distinct, const RowBlock& out) const {
  for (std::size_t i = 0; i < distinct.rows.size(); ++i) {
    const bool has_bad_code = has_nan(row_of(out.codes, info_.shape.head_dim, distinct.places[i]));
    const bool has_bad_scale = has_nan(row_of(out.scales, info_.shape.scales(), distinct.places[i]));
    if (!has_bad_code && !has_bad_scale) continue;
    // Codes and scales may lie in two files.
    const TablePart& part = has_bad_code ? parts_.front() : parts_.back();
    return Error{ErrorCode::corrupt, part.file->name(),
                 fmt::format("row {}: a {} that is NaN", distinct.rows[i], has_bad_code ? "code" : "scale"), "numbers"};
  }
  return {};
}

Result<void> FileRowStore::read(std::span<const RowId> ids, RowBlock out) {
  if (auto checked = check(ids, out); !checked) return checked;
  const DistinctRows distinct = distinct_rows(ids);
  if (auto fetched = fetch(distinct, out); !fetched) return fetched;
  if (auto checked = check_numbers(distinct, out); !checked) return checked;
  finish_rows(distinct, places(out.codes, info_.shape.head_dim));
  finish_rows(distinct, places(out.scales, info_.shape.scales()));
  return {};
}

}  // namespace tandem::engram
