// Copies of whole rows between f32 tensors: gathering the rows that a block needs.
#pragma once

#include <cstring>
#include <span>

#include "gpu/tensor.hpp"

namespace tandem::gpu {

inline void copy_row(const float* from, float* to, std::int64_t cols) noexcept {
  std::memcpy(to, from, static_cast<std::size_t>(cols) * sizeof(float));
}

// to[i] = from[rows[i]].
inline void copy_rows(const Tensor& from, std::span<const std::int32_t> rows, const Tensor& to) noexcept {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    copy_row(from.row<float>(rows[i]), to.row<float>(static_cast<std::int64_t>(i)), from.cols);
  }
}

}  // namespace tandem::gpu
