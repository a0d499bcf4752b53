// Files through pread: short reads are continued, interrupted ones repeated.
#include "gpu/checkpoint/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem::gpu {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, std::uint64_t size, std::string path)
      : descriptor_(descriptor), size_(size), path_(std::move(path)) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(descriptor_); }

  std::uint64_t size() const noexcept override { return size_; }

  Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
    while (!into.empty()) {
      // Linux transfers at most 2 GiB a call.
      const std::size_t wanted = std::min<std::size_t>(into.size(), std::size_t{1} << 30);
      const ssize_t got = ::pread(descriptor_, into.data(), wanted, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return Error{ErrorCode::io, path_, std::strerror(errno), "a readable byte " + std::to_string(offset)};
      if (got == 0) {
        return Error{ErrorCode::io, path_, "the end of the file at byte " + std::to_string(offset),
                     std::to_string(into.size()) + " more bytes"};
      }
      into = into.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return {};
  }

 private:
  int descriptor_;
  std::uint64_t size_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
    return Error{code, path.string(), std::strerror(errno), "a readable file"};
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return Error{ErrorCode::io, path.string(), "not a regular file", "a regular file"};
  }
  return std::unique_ptr<ByteSource>(
      std::make_unique<FileSource>(descriptor, static_cast<std::uint64_t>(status.st_size), path.string()));
}

Result<std::string> read_text(const std::filesystem::path& path, std::uint64_t bytes_max, const OpenSource& open) {
  Result<std::unique_ptr<ByteSource>> source = open(path);
  if (!source) return source.error();
  const std::uint64_t bytes = (*source)->size();
  if (bytes > bytes_max) {
    return Error{ErrorCode::out_of_range, path.string(), std::to_string(bytes) + " bytes",
                 "at most " + std::to_string(bytes_max)};
  }
  std::string text(bytes, '\0');
  if (auto read = (*source)->read(0, std::as_writable_bytes(std::span(text))); !read) return read.error();
  return text;
}

}  // namespace tandem::gpu
