// Which part of a tensor a rank keeps. A matrix that is cut along its inputs is kept as two halves at least, so that
// the partial sums of one rank and of two are the same numbers.
#include "gpu/checkpoint/weight_slicer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::gpu {

WeightSlicer::WeightSlicer(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, RankShare share)
    : checkpoint_(checkpoint), share_(share) {
  for (const ExpectedTensor& tensor : inventory) expected_.emplace(tensor.name, &tensor);
}

void WeightSlicer::keep(Error error) {
  if (!error_) error_ = std::move(error);
}

const ExpectedTensor* WeightSlicer::expect(const std::string& name) {
  if (error_) return nullptr;
  const auto at = expected_.find(name);
  if (at != expected_.end()) return at->second;
  keep({ErrorCode::internal, name, "not in the inventory", "only tensors of the inventory are loaded"});
  return nullptr;
}

std::optional<WeightSlicer::Found> WeightSlicer::find(const std::string& name) {
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

void WeightSlicer::finished(const Found& found) {
  if (!on_bytes_) return;
  std::uint64_t bytes = 0;
  for (const std::string& name : stored_names(checkpoint_, *found.tensor, found.storage)) {
    bytes += checkpoint_.find(name)->entry->bytes;
  }
  on_bytes_(bytes, found.tensor->name);
}

void WeightSlicer::dense(DenseF32& into, const std::string& name, DenseCut cut) {
  const std::optional<Found> found = find(name);
  if (!found) return;
  const std::vector<std::int64_t>& shape = found->tensor->shape;
  // A vector is one row; for slicing, its elements are the rows.
  const bool is_vector = shape.size() == 1;
  const std::int64_t cols = is_vector ? 1 : shape.at(1);
  const Range rows = cut.is_part ? share_.part(shape[0]) : Range{0, shape[0]};
  Result<Buffer> values = cut_plain(*found, cols, rows);
  if (!values) return keep(values.error());
  into.values = std::move(*values);
  into.rows = is_vector ? 1 : rows.count;
  into.cols = is_vector ? rows.count : cols;
  resident_bytes_ += into.values.bytes;
  if (!cut.stays_here) arrived(into);
  finished(*found);
}

void WeightSlicer::plain(DenseF32& into, const std::string& name) {
  dense(into, name, {});
}

void WeightSlicer::plain_rows(DenseF32& into, const std::string& name) {
  dense(into, name, {.is_part = true});
}

void WeightSlicer::plain_optional(DenseF32& into, const std::string& name) {
  if (checkpoint_.find(name) != nullptr) dense(into, name, {});
}

void WeightSlicer::plain_on_host(DenseF32& into, const std::string& name) {
  if (checkpoint_.find(name) != nullptr) dense(into, name, {.stays_here = true});
}

// The rows lie in one packed matrix: groups that are stored apart are also cut apart (row_groups).
Result<WeightSlicer::FoundPacked> WeightSlicer::find_packed(const Found& found, Range rows) const {
  const std::int64_t part_rows = found.packed.front().n;
  FoundPacked packed{found.packed[static_cast<std::size_t>(rows.first / part_rows)], {}, {}};
  packed.rows = {rows.first % part_rows, rows.count};
  Result<Exl3Place> place = find_exl3(checkpoint_, packed.wanted);
  if (!place) return place.error();
  packed.place = std::move(*place);
  return packed;
}

std::vector<Linear> WeightSlicer::slices(const Found& found, Range rows, std::span<const Range> columns) {
  Result<std::vector<Linear>> parts = cut(found, rows, columns);
  if (!parts) return keep(parts.error()), std::vector<Linear>{};
  for (Linear& linear : *parts) {
    linear.name = found.tensor->module_name();
    resident_bytes_ += linear.codes.bytes + linear.scales.bytes;
  }
  return std::move(*parts);
}

void WeightSlicer::matrix(Linear& into, const std::string& name, bool is_part) {
  const std::optional<Found> found = find(name + ".weight");
  if (!found) return;
  const std::vector<std::int64_t>& shape = found->tensor->shape;
  const Range all_columns{0, shape.at(1)};
  std::vector<Linear> one =
      slices(*found, is_part ? share_.part(shape.at(0)) : Range{0, shape.at(0)}, {&all_columns, 1});
  if (one.empty()) return;
  into = std::move(one.front());
  arrived(into, found->tensor->use);
  finished(*found);
}

void WeightSlicer::whole(Linear& into, const std::string& name) {
  matrix(into, name, false);
}

void WeightSlicer::rows(Linear& into, const std::string& name) {
  matrix(into, name, true);
}

void WeightSlicer::columns(PartialLinear& into, const std::string& name) {
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
  for (Linear& slice : into.slices) arrived(slice, found->tensor->use);
  finished(*found);
}

void WeightSlicer::row_groups(std::vector<Linear>& into, const std::string& name, int groups) {
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
    arrived(into.back(), found->tensor->use);
  }
  finished(*found);
}

}  // namespace tandem::gpu
