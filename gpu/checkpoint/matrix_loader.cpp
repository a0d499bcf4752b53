// Formats and slices. A matrix that is cut along its inputs is kept as two halves at least, so that the partial sums of
// one rank and of two are the same numbers.
#include "gpu/checkpoint/matrix_loader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::gpu {
namespace {

WeightFormat format_of(Storage storage) noexcept {
  switch (storage) {
    case Storage::bf16:
      return WeightFormat::bf16;
    case Storage::f32:
      return WeightFormat::f32;
    case Storage::fp4_block32:
      return WeightFormat::fp4_block32;
    case Storage::fp8_block32:
    case Storage::fp8_rows:
      return WeightFormat::fp8_block32;
  }
  return WeightFormat::bf16;
}

PlaneLayout values_layout(Storage storage) noexcept {
  switch (storage) {
    case Storage::bf16:
      return {1, 1, 2};
    case Storage::f32:
      return {1, 1, 4};
    case Storage::fp4_block32:
      return {1, 2, 1};
    case Storage::fp8_block32:
    case Storage::fp8_rows:
      return {1, 1, 1};
  }
  return {};
}

PlaneLayout scales_layout(Storage storage) noexcept {
  return storage == Storage::fp8_block32 ? PlaneLayout{32, 32, 1} : PlaneLayout{1, 32, 1};
}

}  // namespace

MatrixLoader::MatrixLoader(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, RankShare share,
                           TensorStream stream)
    : checkpoint_(checkpoint), share_(share), stream_(std::move(stream)) {
  for (const ExpectedTensor& tensor : inventory) expected_.emplace(tensor.name, &tensor);
}

void MatrixLoader::keep(Error error) {
  if (!error_) error_ = std::move(error);
}

const ExpectedTensor* MatrixLoader::expect(const std::string& name) {
  if (error_) return nullptr;
  const auto at = expected_.find(name);
  if (at != expected_.end()) return at->second;
  keep({ErrorCode::internal, name, "not in the inventory", "only tensors of the inventory are loaded"});
  return nullptr;
}

std::optional<MatrixLoader::Found> MatrixLoader::find(const std::string& name) {
  const ExpectedTensor* tensor = expect(name);
  if (tensor == nullptr) return std::nullopt;
  const Result<Storage> storage = find_storage(checkpoint_, *tensor);
  if (!storage) {
    keep(storage.error());
    return std::nullopt;
  }
  Found found{tensor, *storage, *checkpoint_.find(name), {}};
  if (has_scales(*storage)) found.scales = *checkpoint_.find(tensor->scale_name());
  return found;
}

void MatrixLoader::finished(const Found& found) {
  if (!on_bytes_) return;
  const std::uint64_t scales = found.scales.entry == nullptr ? 0 : found.scales.entry->bytes;
  on_bytes_(found.values.entry->bytes + scales, found.tensor->name);
}

void MatrixLoader::dense(DenseF32& into, const std::string& name, bool is_part) {
  const std::optional<Found> found = find(name);
  if (!found) return;
  const std::vector<std::int64_t>& shape = found->tensor->shape;
  // A vector is one row; for slicing, its elements are the rows.
  const bool is_vector = shape.size() == 1;
  const std::int64_t cols = is_vector ? 1 : shape.at(1);
  const Range rows = is_part ? share_.part(shape[0]) : Range{0, shape[0]};
  Result<Buffer> values = stream_.read_f32(found->values, cols, rows);
  if (!values) return keep(values.error());
  into.values = std::move(*values);
  into.rows = is_vector ? 1 : rows.count;
  into.cols = is_vector ? rows.count : cols;
  resident_bytes_ += into.values.bytes;
  finished(*found);
}

void MatrixLoader::plain(DenseF32& into, const std::string& name) {
  dense(into, name, false);
}

void MatrixLoader::plain_rows(DenseF32& into, const std::string& name) {
  dense(into, name, true);
}

void MatrixLoader::plain_optional(DenseF32& into, const std::string& name) {
  if (checkpoint_.find(name) != nullptr) dense(into, name, false);
}

std::vector<Linear> MatrixLoader::slices(const Found& found, Range rows, std::span<const Range> columns) {
  Result<std::vector<Buffer>> codes = stream_.read(found.values, values_layout(found.storage), rows, columns);
  if (!codes) return keep(codes.error()), std::vector<Linear>{};
  Result<std::vector<Buffer>> scales = std::vector<Buffer>(columns.size());
  if (has_scales(found.storage)) scales = stream_.read(found.scales, scales_layout(found.storage), rows, columns);
  if (!scales) return keep(scales.error()), std::vector<Linear>{};
  std::vector<Linear> result(columns.size());
  constexpr std::size_t suffix = std::string_view(".weight").size();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    Linear& linear = result[i];
    linear.name = found.tensor->name.substr(0, found.tensor->name.size() - suffix);
    linear.format = format_of(found.storage);
    linear.n = rows.count;
    linear.k = columns[i].count;
    linear.codes = std::move((*codes)[i]);
    linear.scales = std::move((*scales)[i]);
    resident_bytes_ += linear.codes.bytes + linear.scales.bytes;
  }
  return result;
}

void MatrixLoader::matrix(Linear& into, const std::string& name, bool is_part) {
  const std::optional<Found> found = find(name + ".weight");
  if (!found) return;
  const std::vector<std::int64_t>& shape = found->tensor->shape;
  const Range all_columns{0, shape.at(1)};
  std::vector<Linear> one =
      slices(*found, is_part ? share_.part(shape.at(0)) : Range{0, shape.at(0)}, {&all_columns, 1});
  if (one.empty()) return;
  into = std::move(one.front());
  finished(*found);
}

void MatrixLoader::whole(Linear& into, const std::string& name) {
  matrix(into, name, false);
}

void MatrixLoader::rows(Linear& into, const std::string& name) {
  matrix(into, name, true);
}

void MatrixLoader::columns(PartialLinear& into, const std::string& name) {
  const std::optional<Found> found = find(name + ".weight");
  if (!found) return;
  const std::int64_t n = found->tensor->shape.at(0);
  const std::int64_t k = found->tensor->shape.at(1);
  const std::int64_t slices_all = std::max(share_.ranks, 2);
  const Range mine = share_.part(k);
  std::vector<Range> ranges;
  for (std::int64_t first = mine.first; first < mine.first + mine.count; first += k / slices_all) {
    ranges.push_back({first, k / slices_all});
  }
  into.slices = slices(*found, {0, n}, ranges);
  into.n = n;
  into.k_local = mine.count;
  finished(*found);
}

void MatrixLoader::row_groups(std::vector<Linear>& into, const std::string& name, int groups) {
  const std::optional<Found> found = find(name + ".weight");
  if (!found) return;
  const std::int64_t group_rows = found->tensor->shape.at(0) / groups;
  const Range all_columns{0, found->tensor->shape.at(1)};
  const Range mine = share_.part(groups);
  into.clear();
  for (std::int64_t group = mine.first; group < mine.first + mine.count; ++group) {
    std::vector<Linear> one = slices(*found, {group * group_rows, group_rows}, {&all_columns, 1});
    if (one.empty()) return;
    one.front().name += fmt::format(".slice.{}", group);
    into.push_back(std::move(one.front()));
  }
  finished(*found);
}

}  // namespace tandem::gpu
