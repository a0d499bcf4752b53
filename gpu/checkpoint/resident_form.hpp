// What a matrix of a file becomes in memory: its format, and how many bytes a part of it takes.
#pragma once

#include <cstdint>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/linear.hpp"

namespace tandem::gpu {

// FP16 becomes F32, but BF16 in a table that is read by row.
WeightFormat resident_format(Storage storage, TensorUse use) noexcept;

struct ResidentBytes {
  std::size_t codes = 0;
  std::size_t scales = 0;
};

// Of `rows` x `cols` values in a format that is not EXL3, whose parts begin and end at whole scale blocks.
ResidentBytes form_bytes(WeightFormat format, std::int64_t rows, std::int64_t cols) noexcept;
// Of `inputs` x `outputs` stored channels, both multiples of 128, in EXL3.
ResidentBytes form_bytes(const exl3::Form& form, std::int64_t inputs, std::int64_t outputs) noexcept;

}  // namespace tandem::gpu
