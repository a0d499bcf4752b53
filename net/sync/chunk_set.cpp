// Arithmetic of chunks, and their set as text.
#include "net/sync/chunk_set.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::net::sync {

std::uint64_t ChunkShape::bytes(std::uint64_t index) const noexcept {
  return std::min(chunk_bytes, file_bytes - offset(index));
}

Result<ChunkShape> make_chunk_shape(std::uint64_t file_bytes, std::uint64_t wanted) {
  ChunkShape shape{file_bytes, std::clamp(wanted, chunk_bytes_min, chunk_bytes_max)};
  while (shape.count() > chunks_max && shape.chunk_bytes < chunk_bytes_max)
    shape.chunk_bytes = std::min(2 * shape.chunk_bytes, chunk_bytes_max);
  if (auto ok = check_chunk_shape(shape); !ok) return ok.error();
  return shape;
}

Result<void> check_chunk_shape(const ChunkShape& shape) {
  const bool is_chunk = shape.chunk_bytes >= chunk_bytes_min && shape.chunk_bytes <= chunk_bytes_max;
  if (is_chunk && shape.count() <= chunks_max) return {};
  return Error{ErrorCode::out_of_range, "chunks",
               fmt::format("{} bytes in chunks of {}", shape.file_bytes, shape.chunk_bytes),
               fmt::format("chunks of {} to {} bytes, at most {}", chunk_bytes_min, chunk_bytes_max, chunks_max)};
}

void ChunkSet::add(std::uint64_t index) {
  if (is_there_[index]) return;
  is_there_[index] = true;
  ++count_;
  bytes_ += shape_.bytes(index);
}

std::string ChunkSet::to_text() const {
  if (count_ == 0) return {};
  std::string text;
  for (std::size_t first = 0; first < is_there_.size(); first += 8) {
    unsigned bits = 0;
    for (std::size_t i = first; i < std::min(first + 8, is_there_.size()); ++i)
      bits |= is_there_[i] ? 1U << (i - first) : 0U;
    text += fmt::format("{:02x}", bits);
  }
  return text;
}

Result<ChunkSet> ChunkSet::parse(ChunkShape shape, std::string_view text) {
  ChunkSet set(shape);
  if (text.empty()) return set;
  const std::uint64_t count = shape.count();
  const Error bad{ErrorCode::bad_format, "chunks that are there", fmt::format("{} digits", text.size()),
                  fmt::format("two hexadecimal digits for every eight of {} chunks", count)};
  if (text.size() != (count + 7) / 8 * 2) return bad;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return bad;
    for (std::size_t bit = 0; bit < 4; ++bit) {
      if ((digit >> bit & 1U) == 0) continue;
      const std::uint64_t index = i / 2 * 8 + (i % 2 == 0 ? 4 : 0) + bit;
      if (index >= count) return bad;
      set.add(index);
    }
  }
  return set;
}

}  // namespace tandem::net::sync
