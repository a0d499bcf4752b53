// Formats and slices. A matrix that is cut along its inputs is kept as two halves at least, so that the partial sums of
// one rank and of two are the same numbers.
#include "gpu/checkpoint/matrix_loader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/checkpoint/exl3_loader.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

WeightFormat format_of(Storage storage) noexcept {
  switch (storage) {
    case Storage::bf16:
      return WeightFormat::bf16;
    case Storage::f32:
    case Storage::f16:
      return WeightFormat::f32;
    case Storage::exl3:
      return WeightFormat::exl3;
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
    case Storage::f16:
      return {1, 1, 2};
    case Storage::f32:
      return {1, 1, 4};
    case Storage::fp4_block32:
      return {1, 2, 1};
    case Storage::fp8_block32:
    case Storage::fp8_rows:
      return {1, 1, 1};
    case Storage::exl3:
      break;
  }
  return {};
}

PlaneLayout scales_layout(Storage storage) noexcept {
  return storage == Storage::fp8_block32 ? PlaneLayout{32, 32, 1} : PlaneLayout{1, 32, 1};
}

// FP16 values become F32; those of a table that is read by row are rounded to BF16, the precision of its activations.
void convert_halves(Linear& linear, TensorUse use) {
  const auto count = static_cast<std::size_t>(linear.n * linear.k);
  auto* halves = linear.codes.as<std::uint16_t>();
  if (use == TensorUse::row_table) {
    linear.format = WeightFormat::bf16;
    std::transform(halves, halves + count, halves,
                   [](std::uint16_t half) { return float_to_bf16(f16_to_float(half)); });
    return;
  }
  Buffer wide = Buffer::host(count * sizeof(float));
  std::transform(halves, halves + count, wide.as<float>(), f16_to_float);
  linear.codes = std::move(wide);
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
  Found found{tensor, *storage, {}, {}, {}};
  if (*storage == Storage::exl3) {
    const std::vector<std::string> modules = exl3_modules(checkpoint_, *tensor);
    const std::int64_t rows = tensor->shape.at(0) / static_cast<std::int64_t>(modules.size());
    for (const std::string& module : modules) found.packed.push_back({module, rows, tensor->shape.at(1)});
    return found;
  }
  found.values = *checkpoint_.find(name);
  if (has_scales(*storage)) found.scales = *checkpoint_.find(tensor->scale_name());
  return found;
}

void MatrixLoader::finished(const Found& found) {
  if (!on_bytes_) return;
  std::uint64_t bytes = 0;
  for (const std::string& name : stored_names(checkpoint_, *found.tensor, found.storage)) {
    bytes += checkpoint_.find(name)->entry->bytes;
  }
  on_bytes_(bytes, found.tensor->name);
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

// The rows lie in one packed matrix: groups that are stored apart are also loaded apart (row_groups).
std::vector<Linear> MatrixLoader::packed_slices(const Found& found, Range rows, std::span<const Range> columns) {
  const std::int64_t part_rows = found.packed.front().n;
  const Exl3Wanted& wanted = found.packed[static_cast<std::size_t>(rows.first / part_rows)];
  const Range own{rows.first % part_rows, rows.count};
  const Result<Exl3Place> place = find_exl3(checkpoint_, wanted);
  if (!place) return keep(place.error()), std::vector<Linear>{};
  std::vector<Linear> result;
  for (const Range& range : columns) {
    Result<Linear> linear = load_exl3(stream_, *place, wanted, {own, range});
    if (!linear) return keep(linear.error()), std::vector<Linear>{};
    linear->name = found.tensor->module_name();
    resident_bytes_ += linear->codes.bytes + linear->scales.bytes;
    result.push_back(std::move(*linear));
  }
  return result;
}

std::vector<Linear> MatrixLoader::slices(const Found& found, Range rows, std::span<const Range> columns) {
  if (found.storage == Storage::exl3) return packed_slices(found, rows, columns);
  Result<std::vector<Buffer>> codes = stream_.read(found.values, values_layout(found.storage), rows, columns);
  if (!codes) return keep(codes.error()), std::vector<Linear>{};
  Result<std::vector<Buffer>> scales = std::vector<Buffer>(columns.size());
  if (has_scales(found.storage)) scales = stream_.read(found.scales, scales_layout(found.storage), rows, columns);
  if (!scales) return keep(scales.error()), std::vector<Linear>{};
  std::vector<Linear> result(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    Linear& linear = result[i];
    linear.name = found.tensor->module_name();
    linear.format = format_of(found.storage);
    linear.n = rows.count;
    linear.k = columns[i].count;
    linear.codes = std::move((*codes)[i]);
    linear.scales = std::move((*scales)[i]);
    if (found.storage == Storage::f16) convert_halves(linear, found.tensor->use);
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
