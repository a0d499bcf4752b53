// What one chunk of the mixture of experts takes from its workspaces: the one formula by which the backend reserves the
// memory and gpu/plan counts it. Nothing of CUDA is included: plans are made where there is none.
//
// T rows, U = T * slots uses, D width, I columns of an expert on this rank, S slices of w2 of K inputs each; floats:
//
//   stream  Q8 copies      T * D for each kind of input
//           EXL3           7 lists of U and 3 numbers a tile; gate, later h in its place, U * I; then the larger of
//                            U * I + R * U * (D / 2 + 8)                up, x rotated for R of gate and up
//                            S * U * D / P + S * U * (K / 2 + 8)        products of one of P parts of D, h rotated
//                          R = 2, P = 1 and U * I more for up to 1,536 uses, else R = 1 and P = 2
//           other formats  U and 3 numbers a tile; h U * I, twice with Q8; products S * U * D
//   branch  shared expert  2 * T * I; then the larger of
//                            T rotated rows of D for each of 2 matrices
//                            T * I with Q8; S * T * D; T rotated rows
//
// At full size on two ranks, 2,048 rows, 6 slots, D 5120, I 1152: the stream takes 240 MB, the branch 66 MB.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "gpu/cuda/exl3/layout.hpp"
#include "gpu/exl3/form.hpp"
#include "gpu/model/workspace.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::cuda {

// Rows of a chunk. Products take 4 * slices * D * (slots + 1) bytes a row: 143 KB at full size. EXL3 experts are read
// and decoded once a chunk, so theirs is longer.
constexpr std::int64_t expert_chunk_rows(bool is_exl3) noexcept {
  return is_exl3 ? 2048 : 128;
}

// More uses than these take less memory each: x is rotated for gate and for up one after the other, and products of
// down are made and summed in parts of its columns.
constexpr std::int64_t uses_at_once = 1536;
constexpr bool takes_turns(std::int64_t uses) noexcept {
  return uses > uses_at_once;
}
constexpr std::int64_t expert_column_parts(std::int64_t uses, std::int64_t width) noexcept {
  return takes_turns(uses) && width % (2 * exl3_block) == 0 ? 2 : 1;
}

// Tiles that uses of `experts` experts can need at most.
constexpr std::int64_t tiles_of(std::int64_t uses, std::int64_t experts, std::int64_t tile_rows) noexcept {
  return (uses < experts ? uses : experts) + uses / tile_rows;
}

// What a call's chunks have in common.
struct ExpertShape {
  std::int64_t experts = 0, slots = 0, slices = 1;
  std::int64_t width = 0, inter = 0, shared_inter = 0;
  std::int64_t slice_width = 0;  // inputs of the widest slice of w2
  bool is_exl3 = false;
  bool q8 = false, shared_q8 = false;  // whether inputs are copied in Q8
};

inline ExpertShape expert_shape(const MoeCall& call) {
  const ExpertWeights& expert = call.weights->experts.front();
  ExpertShape shape;
  shape.experts = static_cast<std::int64_t>(call.weights->experts.size());
  shape.slots = call.routing.ids.cols;
  shape.slices = static_cast<std::int64_t>(expert.w2.slices.size());
  shape.width = call.x.cols;
  shape.inter = expert.w1.n;
  shape.shared_inter = call.weights->shared.w1.n;
  for (const Linear& slice : expert.w2.slices) shape.slice_width = std::max(shape.slice_width, slice.k);
  shape.is_exl3 = expert.w1.format == WeightFormat::exl3;
  // One Q8 copy serves routed and shared experts, whatever the shared one's format, unless the routed ones are EXL3.
  shape.q8 = call.numerics.q8 && expert.w1.is_low_precision();
  const bool shared_is_low = call.numerics.q8 && call.weights->shared.w1.is_low_precision();
  shape.shared_q8 = shape.is_exl3 ? shared_is_low : shape.q8;
  return shape;
}

// Bytes of tensors of 4-byte elements that are taken one after the other.
class ScratchSum {
 public:
  ScratchSum& take(std::int64_t rows, std::int64_t cols = 1) noexcept {
    bytes_ += Workspace::room(rows * cols);
    return *this;
  }
  ScratchSum& take_rotated(std::int64_t rows, std::int64_t inputs) noexcept {
    return take(rows, (exl3::padded_side(inputs) + 1) / 2).take(rows, exl3_slices_max);
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

struct ExpertScratch {
  std::size_t stream = 0, branch = 0;  // bytes
};

inline std::size_t routed_scratch(const ExpertShape& shape, std::int64_t rows) {
  const std::int64_t uses = rows * shape.slots;
  ScratchSum kept;
  if (shape.q8) kept.take(rows, shape.width);
  if (shape.shared_q8 != shape.q8) kept.take(rows, shape.width);
  kept.take(uses).take(1);
  if (!shape.is_exl3) {
    kept.take(tiles_of(uses, shape.experts, 1), 3).take(uses, shape.inter).take(shape.slices * uses, shape.width);
    if (shape.q8) kept.take(uses, shape.inter);
    return kept.bytes();
  }
  kept.take(uses).take(uses).take(uses).take(3 * tiles_of(uses, shape.experts, exl3_rows_max));
  kept.take(uses, shape.inter);
  const bool in_turn = takes_turns(uses);
  ScratchSum raising = kept, lowering = kept;
  raising.take(uses, shape.inter).take_rotated(in_turn ? uses : 2 * uses, shape.width);
  if (!in_turn) lowering.take(uses, shape.inter);
  lowering.take(shape.slices * uses, shape.width / expert_column_parts(uses, shape.width));
  for (std::int64_t s = 0; s < shape.slices; ++s) lowering.take_rotated(uses, shape.slice_width);
  return std::max(raising.bytes(), lowering.bytes());
}

inline std::size_t shared_scratch(const ExpertShape& shape, std::int64_t rows) {
  if (shape.shared_inter == 0) return 0;
  const std::int64_t rotated = std::min<std::int64_t>(rows, exl3_linear_rows_max), inter = shape.shared_inter;
  ScratchSum raising;
  raising.take(rows, inter).take(rows, inter);
  ScratchSum lowering = raising;
  raising.take_rotated(2 * rotated, shape.width);
  if (shape.shared_q8) lowering.take(rows, inter);
  lowering.take(shape.slices * rows, shape.width).take_rotated(rotated, inter);
  return std::max(raising.bytes(), lowering.bytes());
}

// What a chunk of a call of `rows` rows takes, at most. Rows count as the next power of two, so that calls of ever more
// rows make a workspace grow a few times and not each time.
inline ExpertScratch expert_scratch(const ExpertShape& shape, std::int64_t rows) {
  const std::int64_t chunk = expert_chunk_rows(shape.is_exl3);
  const auto rounded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(rows, chunk))));
  // The most uses that do not take turns may take more than some that do.
  const std::int64_t at_once = std::min(rounded, uses_at_once / std::max<std::int64_t>(1, shape.slots));
  return {std::max(routed_scratch(shape, rounded), routed_scratch(shape, at_once)), shared_scratch(shape, rounded)};
}

// What workspaces have come to that met calls of every number of rows up to `rows`: blocks that became too small stay.
inline ExpertScratch grown_expert_scratch(const ExpertShape& shape, std::int64_t rows) {
  const std::int64_t most = std::min(rows, expert_chunk_rows(shape.is_exl3));
  ExpertScratch sum;
  for (std::int64_t power = 1;; power *= 2) {
    const ExpertScratch one = expert_scratch(shape, power);
    sum.stream += std::max(one.stream, Workspace::smallest_block);
    sum.branch += std::max(one.branch, Workspace::smallest_block);
    if (power >= most) return sum;
  }
}

}  // namespace tandem::gpu::cuda
