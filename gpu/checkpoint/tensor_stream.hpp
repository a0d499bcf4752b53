// TensorStream: brings parts of a tensor from its file into memory through one bounded buffer.
//
// A plane is what the file stores as one tensor: the codes of a matrix or its scales. A part is given in rows and
// columns of the matrix; the plane knows how many of them share a byte. Whatever the part, the file is read once, in
// order, in pieces of at most `piece_bytes`; every piece is checked for impossible values (NaN) while it is still in
// the CPU's cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/checkpoint/checkpoint.hpp"

namespace tandem::gpu {

// How the bytes of a plane cover its matrix: row_block matrix rows a stored row, col_block matrix columns every
// col_bytes bytes.
struct PlaneLayout {
  std::int64_t row_block = 1;
  std::int64_t col_block = 1;
  std::int64_t col_bytes = 1;
};

// Half-open range of rows or columns of a matrix.
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Where the columns of a range go: row-major and dense.
struct ColumnTarget {
  Range columns;
  std::byte* into = nullptr;
};

class TensorStream {
 public:
  // `stop` may be null; set, it ends the running read with `cancelled`.
  TensorStream(std::size_t piece_bytes, const std::atomic<bool>* stop);

  // Returns one buffer for every range of columns, each row-major and dense: rows `rows` of the plane restricted to the
  // range. Errors: io, cancelled, corrupt (a NaN, named by its place), invalid_argument (a range that cuts through a
  // block), resource.
  Result<std::vector<Buffer>> read(const TensorPlace& place, const PlaneLayout& layout, Range rows,
                                   std::span<const Range> columns);

  // The same into memory of the caller: one destination for every range of columns.
  Result<void> read_into(const TensorPlace& place, const PlaneLayout& layout, Range rows,
                         std::span<const ColumnTarget> targets);

  // Returns rows `rows` of a BF16, F16 or F32 tensor of any rank, seen as [rows, cols], as F32.
  Result<Buffer> read_f32(const TensorPlace& place, std::int64_t cols, Range rows);

 private:
  using Sink = std::function<void(std::uint64_t first, std::span<const std::byte> piece)>;
  // Bytes of one stored row: the first dimension of a tensor counts them, whatever its rank.
  static std::int64_t row_bytes(const TensorEntry& entry) noexcept;
  struct Bytes {  // a byte range of a tensor, read in pieces that are multiples of `unit`
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t unit = 1;
  };
  Result<void> pump(const TensorPlace& place, Bytes bytes, const Sink& sink);

  std::size_t piece_bytes_;
  const std::atomic<bool>* stop_;
  std::vector<std::byte> piece_;
};

// Returns the position of the first element of `piece` that is NaN or infinite in that type, or -1. Integer types have
// none; of F8_E8M0, byte 255 is NaN.
std::int64_t find_impossible(DType dtype, std::span<const std::byte> piece) noexcept;

}  // namespace tandem::gpu
