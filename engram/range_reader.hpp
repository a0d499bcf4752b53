// RangeReader: any range of bytes of a file in one piece, whatever unit the file wants its reads in. For bulk passes
// (packing, checksums) that go through a file in order; rows go through an IoEngine.
#pragma once

#include <cstdint>
#include <span>

#include "engram/aligned_buffer.hpp"
#include "engram/input_file.hpp"

namespace tandem::engram {

class RangeReader {
 public:
  // Keeps one buffer for ranges of up to `bytes_max` bytes.
  explicit RangeReader(std::size_t bytes_max) : buffer_(bytes_max + 2 * direct_alignment) {}

  // Returns the bytes, valid until the next call. Reads that come in pieces are completed. Errors: io (naming the file
  // and where it ended), invalid_argument (more than bytes_max).
  Result<std::span<const std::byte>> read(const InputFile& file, std::uint64_t offset, std::size_t bytes);

 private:
  AlignedBuffer buffer_;
};

}  // namespace tandem::engram
