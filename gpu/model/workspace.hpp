// Workspace: reusable memory for the intermediate tensors of one step.
//
// A stack: a Scope gives back everything taken since it began, so a layer's tensors cost the memory of one layer.
// Memory is kept between steps and merged into one block, so a steady load allocates nothing. Contents are undefined
// when taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/memory.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

class Workspace {
 public:
  // Gives back on destruction what was taken during its life.
  class Scope {
   public:
    explicit Scope(Workspace& workspace) noexcept
        : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {}
    ~Scope() {
      workspace_.block_ = block_;
      workspace_.used_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    std::size_t block_;
    std::size_t used_;
  };

  explicit Workspace(Memory& memory = host_memory()) noexcept : memory_(memory) {}

  // Memory is allocated in blocks of at least so many bytes.
  static constexpr std::size_t smallest_block = std::size_t{1} << 20;
  // Bytes that a tensor of so many 4-byte elements takes.
  static constexpr std::size_t room(std::int64_t elements) noexcept {
    return whole_lines(static_cast<std::size_t>(elements) * sizeof(float));
  }
  // The next so many bytes of tensors, each counted with room(), come from one block; memory is allocated now if it is
  // to be allocated at all, and no more than that.
  void reserve(std::size_t bytes);

  // Whether reset() leaves the memory of all tensors where it is.
  bool is_merged() const noexcept { return blocks_.size() <= 1; }
  // How far the memory is taken; return_to gives back, or takes again, what was taken behind that mark.
  struct Mark {
    std::size_t block = 0, used = 0;
  };
  Mark mark() const noexcept { return {block_, used_}; }
  void return_to(Mark mark) noexcept {
    block_ = mark.block;
    used_ = mark.used;
  }
  // Forgets all tensors and merges the memory into one block. Call between steps.
  void reset();
  Tensor f32(std::int64_t rows, std::int64_t cols);
  Tensor i32(std::int64_t rows, std::int64_t cols);
  Tensor i64(std::int64_t rows, std::int64_t cols);
  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t alignment = 64;  // of every tensor
  static constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
    return bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
  }
  std::byte* take(std::size_t bytes);

  Memory& memory_;
  std::vector<Buffer> blocks_;
  std::size_t block_ = 0;  // block in use
  std::size_t used_ = 0;   // bytes taken from it
};

}  // namespace tandem::gpu
