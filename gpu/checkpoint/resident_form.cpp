// Formats in memory; the loader fills exactly these sizes, which tests compare.
#include "gpu/checkpoint/resident_form.hpp"

namespace tandem::gpu {
namespace {

constexpr std::int64_t scale_side = 32;

std::size_t area(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

std::int64_t scale_blocks(std::int64_t size) noexcept {
  return (size + scale_side - 1) / scale_side;
}

}  // namespace

WeightFormat resident_format(Storage storage, TensorUse use) noexcept {
  switch (storage) {
    case Storage::bf16:
      return WeightFormat::bf16;
    case Storage::f16:
      return use == TensorUse::row_table ? WeightFormat::bf16 : WeightFormat::f32;
    case Storage::f32:
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

ResidentBytes form_bytes(WeightFormat format, std::int64_t rows, std::int64_t cols) noexcept {
  switch (format) {
    case WeightFormat::bf16:
      return {2 * area(rows, cols), 0};
    case WeightFormat::f32:
      return {4 * area(rows, cols), 0};
    case WeightFormat::fp8_block32:
      return {area(rows, cols), area(scale_blocks(rows), scale_blocks(cols))};
    case WeightFormat::fp4_block32:
      return {area(rows, cols) / 2, area(rows, scale_blocks(cols))};
    case WeightFormat::exl3:
      break;
  }
  return {};
}

ResidentBytes form_bytes(const exl3::Form& form, std::int64_t inputs, std::int64_t outputs) noexcept {
  return {area(inputs, outputs) * form.bits / 8, 2 * static_cast<std::size_t>(inputs + outputs)};
}

}  // namespace tandem::gpu
