// InputFile: positioned reads of one open file. The seam where tests make the n-th read fail.
//
// The one place that opens files for reading. Whatever is not a regular file is refused and never waited for: opening a
// pipe without a writer would otherwise hold a loading rank for ever, deaf to its stop signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engram/error.hpp"

namespace tandem::engram {

class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual const std::string& name() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;
  // Offsets, lengths and addresses of reads must be multiples of this: the direct I/O unit, or 1 for buffered reads.
  virtual std::size_t alignment() const noexcept = 0;
  // For engines that submit reads to the kernel themselves; -1 if only read_at() works.
  virtual int descriptor() const noexcept = 0;
  // Reads up to out.size() bytes; fewer only at the end of the file or when the system gives fewer. Thread-safe.
  // Errors: io.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

using FileOpener = std::function<Result<std::unique_ptr<InputFile>>(const std::filesystem::path&)>;

inline constexpr std::size_t direct_alignment = 4096;  // serves devices with 512-byte and with 4 KiB sectors

// Fills `out` from `offset`. Errors: io (the read failed, or the file ended first).
Result<void> read_exactly(const InputFile& file, std::uint64_t offset, std::span<std::byte> out);

// Opens a regular file for buffered reads. Errors: not_found (there is no such entry), io (anything else: no access, a
// link that leads nowhere or in circles, not a regular file).
Result<std::unique_ptr<InputFile>> open_buffered(const std::filesystem::path& path);
// Opens a regular file for reads that bypass the page cache, proved by one read. Errors: not_found, io as
// above; `unavailable` if the file system refuses direct I/O (tmpfs, some network and overlay file systems).
Result<std::unique_ptr<InputFile>> open_direct(const std::filesystem::path& path);

}  // namespace tandem::engram
