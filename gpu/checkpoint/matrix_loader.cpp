// Formats: what the values and scales of each storage look like in the file and in memory.
#include "gpu/checkpoint/matrix_loader.hpp"

#include <algorithm>

#include "gpu/checkpoint/exl3_loader.hpp"
#include "gpu/checkpoint/resident_form.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

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
    : WeightSlicer(checkpoint, inventory, share), stream_(std::move(stream)) {}

void MatrixLoader::arrived(Linear& weight, TensorUse use) {
  if (placer_ == nullptr) return;
  if (use == TensorUse::row_table) return placer_->place_table(weight);
  placer_->place_matrix(weight);
}

void MatrixLoader::arrived(DenseF32& values) {
  if (placer_ != nullptr) placer_->place_vector(values);
}

Result<Buffer> MatrixLoader::cut_plain(const Found& found, std::int64_t cols, Range rows) {
  return stream_.read_f32(found.values, cols, rows);
}

Result<std::vector<Linear>> MatrixLoader::cut_packed(const Found& found, Range rows, std::span<const Range> columns) {
  const Result<FoundPacked> packed = find_packed(found, rows);
  if (!packed) return packed.error();
  std::vector<Linear> result;
  for (const Range& range : columns) {
    Result<Linear> linear = load_exl3(stream_, packed->place, packed->wanted, {packed->rows, range});
    if (!linear) return linear.error();
    result.push_back(std::move(*linear));
  }
  return result;
}

Result<std::vector<Linear>> MatrixLoader::cut(const Found& found, Range rows, std::span<const Range> columns) {
  if (found.storage == Storage::exl3) return cut_packed(found, rows, columns);
  Result<std::vector<Buffer>> codes = stream_.read(found.values, values_layout(found.storage), rows, columns);
  if (!codes) return codes.error();
  Result<std::vector<Buffer>> scales = std::vector<Buffer>(columns.size());
  if (has_scales(found.storage)) scales = stream_.read(found.scales, scales_layout(found.storage), rows, columns);
  if (!scales) return scales.error();
  std::vector<Linear> result(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    Linear& linear = result[i];
    linear.format = resident_format(found.storage, found.tensor->use);
    linear.n = rows.count;
    linear.k = columns[i].count;
    linear.codes = std::move((*codes)[i]);
    linear.scales = std::move((*scales)[i]);
    if (found.storage == Storage::f16) convert_halves(linear, found.tensor->use);
  }
  return result;
}

}  // namespace tandem::gpu
