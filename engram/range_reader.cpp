// The covering aligned range is read; the caller sees its middle.
#include "engram/range_reader.hpp"

#include <fmt/format.h>

namespace tandem::engram {

Result<std::span<const std::byte>> RangeReader::read(const InputFile& file, std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t unit = file.alignment();
  const std::uint64_t begin = offset / unit * unit;
  const auto needed = static_cast<std::size_t>(offset - begin) + bytes;
  const std::size_t whole = (needed + unit - 1) / unit * unit;
  if (whole > buffer_.span().size()) {
    return Error{ErrorCode::invalid_argument, file.name(), fmt::format("a range of {} bytes", bytes),
                 fmt::format("at most {}", buffer_.span().size() - 2 * direct_alignment)};
  }
  for (std::size_t done = 0; done < needed;) {
    const auto got = file.read_at(begin + done, buffer_.span().subspan(done, whole - done));
    if (!got) return got.error();
    done += *got;
    // A direct read that stops off its unit stopped at the end of the file.
    if (*got == 0 || (done < needed && done % unit != 0)) {
      return Error{ErrorCode::io, file.name(), fmt::format("short read at {}: {} bytes", begin, done),
                   fmt::format("{} bytes", needed)};
    }
  }
  return std::span<const std::byte>(buffer_.span().subspan(static_cast<std::size_t>(offset - begin), bytes));
}

}  // namespace tandem::engram
