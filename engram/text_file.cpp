// One open, one size, one exact read.
#include "engram/text_file.hpp"

#include <fmt/format.h>

#include "engram/input_file.hpp"

namespace tandem::engram {

Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t bytes_max) {
  const auto file = open_buffered(path);
  if (!file) return file.error();
  const std::uint64_t bytes = (*file)->size();
  if (bytes > bytes_max) {
    return Error{ErrorCode::out_of_range, path.string(), fmt::format("{} bytes", bytes),
                 fmt::format("at most {}", bytes_max)};
  }
  std::string text(bytes, '\0');
  if (auto read = read_exactly(**file, 0, std::as_writable_bytes(std::span(text))); !read) return read.error();
  return text;
}

}  // namespace tandem::engram
