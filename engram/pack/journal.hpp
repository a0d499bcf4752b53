// PackJournal: which blocks of a packed file under construction are on the disk, and their checksums.
//
// A text file: the first line says whose blocks these are, every further line is a block number and its CRC-32C. Lines
// are appended after the blocks they name were flushed, so a line is never ahead of its data; a line that a crash cut
// is ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engram/pack/output_file.hpp"

namespace tandem::engram {

struct FinishedBlock {
  std::size_t block = 0;
  std::uint32_t checksum = 0;
};

class PackJournal {
 public:
  // Returns the finished blocks of a journal that begins with `identity` and has whole, plausible lines for blocks
  // below `blocks`; nothing if there is no such journal.
  static std::map<std::size_t, std::uint32_t> read(const std::filesystem::path& path, const std::string& identity,
                                                   std::size_t blocks);
  // Writes a journal of these blocks, replacing any other, and leaves it open for append(). Errors: io, resource.
  static Result<PackJournal> create(const std::filesystem::path& path, const std::string& identity,
                                    const std::map<std::size_t, std::uint32_t>& finished);

  // Adds blocks and flushes. Errors: io, resource.
  Result<void> append(const std::vector<FinishedBlock>& blocks);

 private:
  PackJournal(OutputFile file, std::uint64_t end) : file_(std::move(file)), end_(end) {}
  OutputFile file_;
  std::uint64_t end_;
};

}  // namespace tandem::engram
