// The reading loop and the two ways to keep what it brings: copied into column slices, or widened to F32.
#include "gpu/checkpoint/tensor_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

template <class Word, class IsImpossible>
std::int64_t find_word(std::span<const std::byte> piece, IsImpossible is_impossible) noexcept {
  const std::size_t count = piece.size() / sizeof(Word);
  const auto at = [&](std::size_t i) {
    Word word;
    std::memcpy(&word, piece.data() + i * sizeof(Word), sizeof(Word));
    return word;
  };
  // Blocks without a branch inside, so that the compiler vectorises the common case: nothing found.
  constexpr std::size_t block = 256;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t last = std::min(count, first + block);
    unsigned any = 0;
    for (std::size_t i = first; i < last; ++i) any |= static_cast<unsigned>(is_impossible(at(i)));
    if (any == 0) continue;
    for (std::size_t i = first; i < last; ++i) {
      if (is_impossible(at(i))) return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

Error cut_through_block(const TensorPlace& place, const char* what, Range range, std::int64_t block) {
  return {ErrorCode::invalid_argument, place.where(),
          fmt::format("{} {}..{}", what, range.first, range.first + range.count),
          fmt::format("a multiple of {}", block)};
}

// A range of matrix rows or columns in blocks of the plane. The last block of a matrix may be partly filled.
Result<Range> in_blocks(const TensorPlace& place, const char* what, Range range, std::int64_t block,
                        std::int64_t stored) {
  const Range blocks{range.first / block, (range.count + block - 1) / block};
  const bool ends_inside = range.count % block != 0 && blocks.first + blocks.count < stored;
  if (range.first % block != 0 || ends_inside) return cut_through_block(place, what, range, block);
  if (range.first < 0 || range.count < 0 || blocks.first + blocks.count > stored) {
    return Error{ErrorCode::invalid_argument, place.where(),
                 fmt::format("{} {}..{}", what, range.first, range.first + range.count),
                 fmt::format("at most {}", stored * block)};
  }
  return blocks;
}

std::string element_name(const TensorEntry& entry, std::uint64_t byte) {
  const std::uint64_t element = byte / element_bytes(entry.dtype);
  const std::uint64_t cols = entry.shape.empty() ? 1 : static_cast<std::uint64_t>(entry.shape.back());
  return entry.shape.size() < 2 ? fmt::format("[{}]", element)
                                : fmt::format("[{}, {}]", element / cols, element % cols);
}

void widen(DType dtype, std::span<const std::byte> piece, float* out) noexcept {
  if (dtype == DType::f32) {
    std::memcpy(out, piece.data(), piece.size());
    return;
  }
  for (std::size_t i = 0; i * 2 < piece.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, piece.data() + i * 2, 2);
    out[i] = dtype == DType::f16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
}

}  // namespace

std::int64_t find_impossible(DType dtype, std::span<const std::byte> piece) noexcept {
  switch (dtype) {
    case DType::f32:
      return find_word<std::uint32_t>(piece, [](std::uint32_t w) { return (w & 0x7F800000U) == 0x7F800000U; });
    case DType::bf16:
      return find_word<std::uint16_t>(piece, [](std::uint16_t w) { return (w & 0x7F80U) == 0x7F80U; });
    case DType::f16:
      return find_word<std::uint16_t>(piece, [](std::uint16_t w) { return (w & 0x7C00U) == 0x7C00U; });
    case DType::f8_e4m3:
      return find_word<std::uint8_t>(piece, [](std::uint8_t w) { return (w & 0x7FU) == 0x7FU; });
    case DType::f8_e8m0:
      return find_word<std::uint8_t>(piece, [](std::uint8_t w) { return w == 0xFFU; });
    case DType::i32:
    case DType::i64:
    case DType::i16:
    case DType::u8:
    case DType::i8:
      return -1;
  }
  return -1;
}

TensorStream::TensorStream(std::size_t piece_bytes, const std::atomic<bool>* stop)
    : piece_bytes_(piece_bytes), stop_(stop) {}

Result<void> TensorStream::pump(const TensorPlace& place, Bytes bytes, const Sink& sink) {
  if (bytes.count == 0) return {};
  const std::uint64_t units = std::max<std::uint64_t>(1, piece_bytes_ / bytes.unit);
  piece_.resize(std::min(units * bytes.unit, bytes.count));
  for (std::uint64_t done = 0; done < bytes.count;) {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
      return Error{ErrorCode::cancelled, place.where(), "loading was stopped", ""};
    }
    const std::span<std::byte> piece(piece_.data(), std::min<std::uint64_t>(piece_.size(), bytes.count - done));
    if (auto read = place.shard->read(*place.entry, bytes.first + done, piece); !read) {
      Error error = read.error();
      error.where = place.where();
      return error;
    }
    const std::int64_t bad = find_impossible(place.entry->dtype, piece);
    if (bad >= 0) {
      const std::uint64_t byte =
          bytes.first + done + static_cast<std::uint64_t>(bad) * element_bytes(place.entry->dtype);
      return Error{ErrorCode::corrupt, place.where(), "NaN or infinity at " + element_name(*place.entry, byte),
                   "finite numbers"};
    }
    sink(done, piece);
    done += piece.size();
  }
  return {};
}

std::int64_t TensorStream::row_bytes(const TensorEntry& entry) noexcept {
  return entry.shape.empty() || entry.shape[0] == 0 ? 0 : static_cast<std::int64_t>(entry.bytes) / entry.shape[0];
}

Result<std::vector<Buffer>> TensorStream::read(const TensorPlace& place, const PlaneLayout& layout, Range rows,
                                               std::span<const Range> columns) {
  const std::int64_t stored_cols = row_bytes(*place.entry) / layout.col_bytes;
  const Result<Range> lines = in_blocks(place, "rows", rows, layout.row_block, place.entry->shape.at(0));
  if (!lines) return lines.error();
  std::vector<Buffer> buffers;
  std::vector<ColumnTarget> targets;
  for (const Range& range : columns) {
    const Result<Range> blocks = in_blocks(place, "columns", range, layout.col_block, stored_cols);
    if (!blocks) return blocks.error();
    buffers.push_back(Buffer::host(static_cast<std::size_t>(blocks->count * layout.col_bytes * lines->count)));
    targets.push_back({range, buffers.back().data.get()});
  }
  if (auto done = read_into(place, layout, rows, targets); !done) return done.error();
  return buffers;
}

Result<void> TensorStream::read_into(const TensorPlace& place, const PlaneLayout& layout, Range rows,
                                     std::span<const ColumnTarget> targets) {
  const std::int64_t row_bytes = TensorStream::row_bytes(*place.entry);
  const Result<Range> lines = in_blocks(place, "rows", rows, layout.row_block, place.entry->shape.at(0));
  if (!lines) return lines.error();
  struct Copy {  // bytes [first, first + count) of every stored row go to consecutive rows of `into`
    std::int64_t first, count;
    std::byte* into;
  };
  std::vector<Copy> copies;
  for (const ColumnTarget& target : targets) {
    const Result<Range> blocks =
        in_blocks(place, "columns", target.columns, layout.col_block, row_bytes / layout.col_bytes);
    if (!blocks) return blocks.error();
    copies.push_back({blocks->first * layout.col_bytes, blocks->count * layout.col_bytes, target.into});
  }
  const auto unit = static_cast<std::uint64_t>(row_bytes);
  const Bytes bytes{static_cast<std::uint64_t>(lines->first) * unit, static_cast<std::uint64_t>(lines->count) * unit,
                    unit};
  return pump(place, bytes, [&](std::uint64_t first, std::span<const std::byte> piece) {
    const auto line = static_cast<std::int64_t>(first / unit);
    const auto count = static_cast<std::int64_t>(piece.size() / unit);
    for (const Copy& copy : copies) {
      if (copy.count == row_bytes) std::memcpy(copy.into + line * row_bytes, piece.data(), piece.size());
      for (std::int64_t i = 0; copy.count < row_bytes && i < count; ++i) {
        std::memcpy(copy.into + (line + i) * copy.count, piece.data() + i * row_bytes + copy.first,
                    static_cast<std::size_t>(copy.count));
      }
    }
  });
}

Result<Buffer> TensorStream::read_f32(const TensorPlace& place, std::int64_t cols, Range rows) {
  const TensorEntry& entry = *place.entry;
  const std::uint64_t element = element_bytes(entry.dtype);
  const auto values = static_cast<std::uint64_t>(rows.count * cols);
  Buffer buffer = Buffer::host(values * sizeof(float));
  const Bytes bytes{static_cast<std::uint64_t>(rows.first * cols) * element, values * element, element};
  auto done = pump(place, bytes, [&](std::uint64_t first, std::span<const std::byte> piece) {
    widen(entry.dtype, piece, buffer.as<float>() + first / element);
  });
  if (!done) return done.error();
  return buffer;
}

}  // namespace tandem::gpu
