// ByteSource: a file that is read at offsets. The one door through which checkpoint bytes come in, so that tests can
// let the n-th read fail.
//
// Reading never maps the file: a fault of the disk is an error value, not a signal. Reads may come from several
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engram/error.hpp"

namespace tandem::gpu {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Returns the length in bytes, as it was when the source was opened.
  virtual std::uint64_t size() const noexcept = 0;
  // Fills `into` from `offset`. Errors: io (the read failed, or the file ended first).
  virtual Result<void> read(std::uint64_t offset, std::span<std::byte> into) = 0;
};

using OpenSource = std::function<Result<std::unique_ptr<ByteSource>>(const std::filesystem::path&)>;

// Opens a regular file for reading. Errors: not_found, io.
Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path);

// Returns the whole content of a small file. Errors: those of `open` and read, out_of_range above `bytes_max`.
Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t bytes_max,
                              const OpenSource& open = open_file);

}  // namespace tandem::gpu
