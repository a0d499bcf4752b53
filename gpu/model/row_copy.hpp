// Copies of whole rows between f32 tensors: gathering the rows that a block needs.
#pragma once

#include <span>
#include <vector>

#include "gpu/ops.hpp"

namespace tandem::gpu {

// to[i] = from[rows[i]].
inline void copy_rows(Ops& ops, const Tensor& from, std::span<const std::int32_t> rows, const Tensor& to) {
  std::vector<RowMove> moves;
  moves.reserve(rows.size());
  for (const std::int32_t row : rows) {
    moves.push_back({from.row<float>(row), to.row<float>(static_cast<std::int64_t>(moves.size()))});
  }
  ops.move_rows(moves, from.cols);
}

}  // namespace tandem::gpu
