// OutputFile: a file under construction that survives the death of its writer: opened again, locked against a second
// writer, written at offsets, flushed on demand.
//
// DurableFile is for what is written in one go; this is for what takes minutes and goes on after a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "engram/error.hpp"

namespace tandem::engram {

class OutputFile {
 public:
  // Opens or creates the file and takes its lock, which ends with the process. Errors: io; unavailable if another
  // process writes it.
  static Result<OutputFile> open(const std::filesystem::path& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  struct Extent {
    std::uint64_t bytes = 0;      // length
    std::uint64_t allocated = 0;  // space already taken on the disk
  };
  Result<Extent> extent() const;
  // Cuts or lengthens the file and takes the space for it at once where the file system can. Errors: io, resource (disk
  // full).
  Result<void> resize(std::uint64_t bytes);
  // Thread-safe. Errors: io, resource (disk full).
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Flushes to the disk and gives the page cache back. Errors: io.
  Result<void> sync() const;

 private:
  OutputFile(int descriptor, std::filesystem::path path);
  Error failure(const char* call) const;
  bool has_its_name() const;

  int descriptor_ = -1;
  std::filesystem::path path_;
};

// Flushes the entries of the folder that holds `path`: renames and removals. Errors: io.
Result<void> sync_folder_of(const std::filesystem::path& path);

}  // namespace tandem::engram
