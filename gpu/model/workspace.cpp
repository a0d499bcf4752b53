// Bump allocation over a list of blocks.
#include "gpu/model/workspace.hpp"

#include <algorithm>

namespace tandem::gpu {
void Workspace::reset() {
  if (blocks_.size() > 1) {
    const std::size_t total = bytes();
    blocks_.clear();
    blocks_.push_back(memory_.allocate(total));
  }
  block_ = 0;
  used_ = 0;
}

std::size_t Workspace::bytes() const noexcept {
  std::size_t total = 0;
  for (const Buffer& block : blocks_) total += block.bytes;
  return total;
}

void Workspace::reserve(std::size_t bytes) {
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.push_back(memory_.allocate(std::max(bytes, smallest_block)));
}

std::byte* Workspace::take(std::size_t bytes) {
  const std::size_t size = whole_lines(bytes);
  while (block_ < blocks_.size() && used_ + size > blocks_[block_].bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.push_back(memory_.allocate(std::max({size, smallest_block, this->bytes()})));
  }
  std::byte* data = blocks_[block_].data.get() + used_;
  used_ += size;
  return data;
}

Tensor Workspace::f32(std::int64_t rows, std::int64_t cols) {
  return Tensor::f32(reinterpret_cast<float*>(take(static_cast<std::size_t>(rows * cols) * sizeof(float))), rows, cols);
}

Tensor Workspace::i32(std::int64_t rows, std::int64_t cols) {
  return Tensor::i32(
      reinterpret_cast<std::int32_t*>(take(static_cast<std::size_t>(rows * cols) * sizeof(std::int32_t))), rows, cols);
}

Tensor Workspace::i64(std::int64_t rows, std::int64_t cols) {
  return {take(static_cast<std::size_t>(rows * cols) * sizeof(std::int64_t)), DType::i64, rows, cols, cols};
}

}  // namespace tandem::gpu
