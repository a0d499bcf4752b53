// PieceReader: pieces of files, one file open at a time, without filling the page cache: on the target machines it is
// the device's memory, and what was sent is not read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engram/error.hpp"

namespace tandem::net::sync {

class PieceReader {
 public:
  explicit PieceReader(std::filesystem::path folder);
  ~PieceReader();
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;

  struct Piece {
    std::string path;  // relative to the folder
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  // Returns the bytes of a piece; they stay until the next call. Errors: not_found, io (among them: the file ended
  // first).
  Result<std::span<const std::byte>> read(const Piece& piece);

 private:
  Result<void> open(const std::string& path);

  std::filesystem::path folder_;
  std::string path_;
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace tandem::net::sync
