// Sums of partial products over K slices and ranks.
//
// A rank holds consecutive K slices, ranks follow each other in K: adding slice after slice, rank after rank, is one
// fixed order. One rank with two halves and two ranks with one half each therefore add the same numbers in the same
// order, and round once.
#include <span>

#include "gpu/model/blocks.hpp"

namespace tandem::gpu {
namespace {

std::span<const std::byte> bytes_of(const Tensor& value) noexcept {
  return {static_cast<const std::byte*>(value.data), static_cast<std::size_t>(value.rows * value.cols) * sizeof(float)};
}

std::span<std::byte> writable_bytes_of(const Tensor& value) noexcept {
  return {static_cast<std::byte*>(value.data), static_cast<std::size_t>(value.rows * value.cols) * sizeof(float)};
}

// sum = the blocks of [rows, cols] that `parts` consists of, added in order.
void add_blocks(const Tensor& parts, const Tensor& sum) noexcept {
  const std::int64_t elements = sum.rows * sum.cols;
  const std::int64_t blocks = parts.rows / sum.rows;
  const float* from = static_cast<const float*>(parts.data);
  float* to = static_cast<float*>(sum.data);
  for (std::int64_t i = 0; i < elements; ++i) to[i] = from[i];
  for (std::int64_t block = 1; block < blocks; ++block) {
    const float* next = from + block * elements;
    for (std::int64_t i = 0; i < elements; ++i) to[i] += next[i];
  }
}

}  // namespace

Result<Tensor> sum_partials(const StepContext& step, const Tensor& partials) {
  const std::int64_t rows = step.row_count();
  const Tensor sum = step.workspace.f32(rows, partials.cols);
  const Workspace::Scope scope(step.workspace);
  Tensor all = partials;
  if (step.model.ranks() > 1) {
    all = step.workspace.f32(partials.rows * step.model.ranks(), partials.cols);
    if (auto ok = step.model.communicator->all_gather(bytes_of(partials), writable_bytes_of(all)); !ok)
      return ok.error();
  }
  add_blocks(all, sum);
  if (step.rounds()) step.ops().round_bf16(sum);
  return sum;
}

}  // namespace tandem::gpu
