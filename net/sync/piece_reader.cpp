// pread until the piece is there, then the advice that nobody will want it again.
#include "net/sync/piece_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tandem::net::sync {

PieceReader::PieceReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

PieceReader::~PieceReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> PieceReader::open(const std::string& path) {
  if (path == path_ && descriptor_ >= 0) return {};
  if (descriptor_ >= 0) ::close(descriptor_);
  path_ = path;
  descriptor_ = ::open((folder_ / path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ >= 0) return {};
  return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, (folder_ / path).string(),
               std::generic_category().message(errno), "a readable file"};
}

Result<std::span<const std::byte>> PieceReader::read(const Piece& piece) {
  if (auto opened = open(piece.path); !opened) return opened.error();
  buffer_.resize(piece.bytes);
  for (std::uint64_t done = 0; done < piece.bytes;) {
    const auto offset = static_cast<off_t>(piece.offset + done);
    const ssize_t got = ::pread(descriptor_, buffer_.data() + done, piece.bytes - done, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error{ErrorCode::io, (folder_ / piece.path).string(),
                   got == 0 ? "the file ended before the piece did" : std::generic_category().message(errno), ""};
    }
    done += static_cast<std::uint64_t>(got);
  }
  ::posix_fadvise(descriptor_, static_cast<off_t>(piece.offset), static_cast<off_t>(piece.bytes), POSIX_FADV_DONTNEED);
  return std::span<const std::byte>(buffer_);
}

}  // namespace tandem::net::sync
