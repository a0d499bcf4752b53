// DurableFile: a file that appears under its name complete and on disk, or not at all.
//
// Bytes go to a temporary file in the same folder; commit() flushes it, renames it and flushes the folder. Without
// commit() the temporary file is removed: a crash or an error never leaves a half-written file under the final name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "engram/error.hpp"

namespace tandem::engram {

class DurableFile {
 public:
  // Creates the temporary file beside `path`, or beside the file that `path` is a link to. Errors: io (among them:
  // something else than a regular file has that name, which is left alone).
  static Result<DurableFile> create(const std::filesystem::path& path);

  DurableFile(DurableFile&& other) noexcept;
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  // Errors: io (disk full, ...).
  Result<void> append(std::span<const std::byte> bytes);
  // Makes the file visible, replacing one of the same name. Errors: io.
  Result<void> commit();

 private:
  DurableFile(int descriptor, std::filesystem::path temporary, std::filesystem::path path);
  void close_descriptor() noexcept;

  int descriptor_ = -1;
  std::filesystem::path temporary_;
  std::filesystem::path path_;
};

}  // namespace tandem::engram
