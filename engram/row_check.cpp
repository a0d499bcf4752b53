// The start-up check of real rows. Table rows are trained embeddings: centred near 0, both signs about equally often.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engram/row_store.hpp"

namespace tandem::engram {
namespace {

struct Moments {
  double sum = 0, squares = 0;
  std::size_t count = 0, negative = 0, positive = 0, not_finite = 0;
};

Moments measure(std::span<const float> values) {
  Moments m;
  m.count = values.size();
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++m.not_finite;
      continue;
    }
    m.sum += value;
    m.squares += static_cast<double>(value) * value;
    m.negative += value < 0 ? 1 : 0;
    m.positive += value > 0 ? 1 : 0;
  }
  return m;
}

// Bytes taken as integers would be all positive with a mean of 0.87 root mean squares; honest rows stay far below a
// quarter.
constexpr double mean_max = 0.25;

Result<void> judge(const Moments& m) {
  const double root_mean_square = std::sqrt(m.squares / static_cast<double>(m.count));
  const double mean = m.sum / static_cast<double>(m.count);
  const std::size_t tenth = (m.positive + m.negative) / 10;
  const bool is_centred = std::abs(mean) <= mean_max * root_mean_square;
  const bool has_both_signs = m.positive > tenth && m.negative > tenth;
  if (m.not_finite == 0 && is_centred && has_both_signs) return {};
  return Error{ErrorCode::corrupt, "Engram table",
               fmt::format("{} values: mean {:.4g}, root mean square {:.4g}, {} positive, {} negative, {} not finite",
                           m.count, mean, root_mean_square, m.positive, m.negative, m.not_finite),
               "finite values of both signs with a mean near 0"};
}

// Every row once; what read() refuses is all that is looked for.
Result<void> read_whole(RowStore& store) {
  constexpr std::int64_t batch_rows = 4096;
  const TableInfo& info = store.info();
  std::vector<E4m3> codes(static_cast<std::size_t>(batch_rows * info.shape.head_dim));
  std::vector<E8m0> scales(static_cast<std::size_t>(batch_rows * info.shape.scales()));
  std::vector<RowId> ids;
  for (std::int64_t first = info.first_row; first < info.last_row; first += batch_rows) {
    ids.clear();
    for (std::int64_t row = first; row < std::min(first + batch_rows, info.last_row); ++row)
      ids.push_back(RowId{static_cast<std::int32_t>(row)});
    const RowBlock out{std::span(codes).first(ids.size() * static_cast<std::size_t>(info.shape.head_dim)),
                       std::span(scales).first(ids.size() * static_cast<std::size_t>(info.shape.scales()))};
    if (auto read = store.read(ids, out); !read) return read;
  }
  return {};
}

}  // namespace

Result<void> check_rows(RowStore& store, std::int64_t samples) {
  const TableInfo& info = store.info();
  const std::int64_t rows = info.last_row - info.first_row;
  if (rows * static_cast<std::int64_t>(info.shape.bytes()) <= whole_check_bytes) {
    if (auto whole = read_whole(store); !whole) return whole;
  }
  const std::int64_t count = std::clamp<std::int64_t>(samples, 1, rows);
  std::vector<RowId> ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(RowId{static_cast<std::int32_t>(info.first_row + rows * i / count)});
  ids.back() = RowId{static_cast<std::int32_t>(info.last_row - 1)};
  std::vector<E4m3> codes(ids.size() * static_cast<std::size_t>(info.shape.head_dim));
  std::vector<E8m0> scales(ids.size() * static_cast<std::size_t>(info.shape.scales()));
  if (auto read = store.read(ids, {codes, scales}); !read) return read;
  std::vector<float> values(codes.size());
  dequantise(codes, scales, values);
  return judge(measure(values));
}

}  // namespace tandem::engram
