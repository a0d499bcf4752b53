// ChunkSet: which chunks of a file are there. A file of n bytes has ceil(n / chunk) chunks, the last one may be
// shorter; an empty file has none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"
#include "net/sync/limits.hpp"

namespace tandem::net::sync {

struct ChunkShape {
  std::uint64_t file_bytes = 0;
  std::uint64_t chunk_bytes = chunk_bytes_default;

  std::uint64_t count() const noexcept { return (file_bytes + chunk_bytes - 1) / chunk_bytes; }
  std::uint64_t offset(std::uint64_t index) const noexcept { return index * chunk_bytes; }
  // Size of a chunk; requires index < count().
  std::uint64_t bytes(std::uint64_t index) const noexcept;
};

// Returns the size of chunks for a file: `wanted`, doubled until the file has at most chunks_max. Errors: out_of_range
// (a file of more than 64 TiB).
Result<ChunkShape> make_chunk_shape(std::uint64_t file_bytes, std::uint64_t wanted);

// Checks a shape that the other end chose. Errors: out_of_range.
Result<void> check_chunk_shape(const ChunkShape& shape);

class ChunkSet {
 public:
  explicit ChunkSet(ChunkShape shape = {}) : shape_(shape), is_there_(shape.count(), false) {}

  const ChunkShape& shape() const noexcept { return shape_; }
  bool has(std::uint64_t index) const noexcept { return is_there_[index]; }
  void add(std::uint64_t index);
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  bool is_complete() const noexcept { return count_ == is_there_.size(); }

  // Two hexadecimal digits for eight chunks, the first chunk in the lowest bit; empty if there is none.
  std::string to_text() const;
  // Errors: bad_format (other digits, another length, a chunk beyond the last).
  static Result<ChunkSet> parse(ChunkShape shape, std::string_view text);

 private:
  ChunkShape shape_;
  std::vector<bool> is_there_;
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace tandem::net::sync
