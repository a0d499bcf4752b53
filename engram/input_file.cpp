// Files of the operating system behind InputFile.
#include "engram/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "engram/aligned_buffer.hpp"

namespace tandem::engram {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

class PosixFile final : public InputFile {
 public:
  PosixFile(int descriptor, std::string name, std::size_t alignment)
      : descriptor_(descriptor), name_(std::move(name)), alignment_(alignment) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override { ::close(descriptor_); }

  Result<void> inspect() {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) return Error{ErrorCode::io, name_, "fstat: " + reason(errno), ""};
    if (!S_ISREG(status.st_mode)) return Error{ErrorCode::io, name_, "not a regular file", "a regular file"};
    size_ = static_cast<std::uint64_t>(status.st_size);
    return {};
  }

  const std::string& name() const noexcept override { return name_; }
  std::uint64_t size() const noexcept override { return size_; }
  std::size_t alignment() const noexcept override { return alignment_; }
  int descriptor() const noexcept override { return descriptor_; }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    for (;;) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return Error{ErrorCode::io, name_, fmt::format("read at {}: {}", offset, reason(errno)), ""};
    }
  }

 private:
  int descriptor_;
  std::string name_;
  std::size_t alignment_;
  std::uint64_t size_ = 0;
};

Error open_error(const std::filesystem::path& path, int flags, int error) {
  struct stat entry {};
  // Direct I/O is refused for what is no file at all before anybody can look at it.
  if (error == EINVAL && ::stat(path.c_str(), &entry) == 0 && !S_ISREG(entry.st_mode))
    return {ErrorCode::io, path.string(), "not a regular file", "a regular file"};
  const bool is_refused = error == EINVAL && flags != 0;
  if (error == ENOENT && ::lstat(path.c_str(), &entry) == 0)
    return {ErrorCode::io, path.string(), "a link that leads nowhere", "a regular file"};
  const bool is_absent = error == ENOENT || error == ENOTDIR;
  const ErrorCode code = is_absent ? ErrorCode::not_found : is_refused ? ErrorCode::unavailable : ErrorCode::io;
  return {code, path.string(), "open: " + reason(error), "a readable file"};
}

Result<std::unique_ptr<PosixFile>> open_file(const std::filesystem::path& path, int flags, std::size_t alignment) {
  // O_NONBLOCK: a pipe opens at once and is refused below. Regular files know no such state, and it is taken back
  // because io_uring would answer "try again" on file systems that cannot promise to return at once.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (descriptor < 0) return open_error(path, flags, errno);
  auto file = std::make_unique<PosixFile>(descriptor, path.string(), alignment);
  if (auto inspected = file->inspect(); !inspected) return inspected.error();
  if (::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK) != 0)
    return Error{ErrorCode::io, path.string(), "fcntl: " + reason(errno), ""};
  return file;
}

}  // namespace

Result<void> read_exactly(const InputFile& file, std::uint64_t offset, std::span<std::byte> out) {
  // Linux transfers at most 2 GiB a call.
  constexpr std::size_t piece_bytes = std::size_t{1} << 30;
  while (!out.empty()) {
    const auto got = file.read_at(offset, out.first(std::min(out.size(), piece_bytes)));
    if (!got) return got.error();
    if (*got == 0) {
      return Error{ErrorCode::io, file.name(), fmt::format("the end of the file at byte {}", offset),
                   fmt::format("{} more bytes", out.size())};
    }
    out = out.subspan(*got);
    offset += *got;
  }
  return {};
}

Result<std::unique_ptr<InputFile>> open_buffered(const std::filesystem::path& path) {
  auto file = open_file(path, 0, 1);
  if (!file) return file.error();
  return std::unique_ptr<InputFile>(std::move(*file));
}

Result<std::unique_ptr<InputFile>> open_direct(const std::filesystem::path& path) {
  auto file = open_file(path, O_DIRECT, direct_alignment);
  if (!file) return file.error();
  // Some file systems accept the flag and refuse the reads.
  const AlignedBuffer probe(direct_alignment);
  if (auto read = (*file)->read_at(0, probe.span()); !read) {
    return Error{ErrorCode::unavailable, path.string(), "direct I/O refused: " + read.error().found, ""};
  }
  return std::unique_ptr<InputFile>(std::move(*file));
}

}  // namespace tandem::engram
