// open, flock, fallocate, pwrite, fdatasync.
#include "engram/pack/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tandem::engram {
namespace {

constexpr int opening_attempts = 3;

}  // namespace

OutputFile::OutputFile(int descriptor, std::filesystem::path path) : descriptor_(descriptor), path_(std::move(path)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Error OutputFile::failure(const char* call) const {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return {is_full ? ErrorCode::resource : ErrorCode::io, path_.string(),
          fmt::format("{}: {}", call, std::generic_category().message(errno)), ""};
}

Result<OutputFile> OutputFile::open(const std::filesystem::path& path) {
  const Error busy{ErrorCode::unavailable, path.string(), "another process is writing it", ""};
  for (int attempt = 0; attempt < opening_attempts; ++attempt) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    OutputFile file(descriptor, path);
    if (descriptor < 0) return file.failure("open for writing");
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? busy : file.failure("lock");
    if (file.has_its_name()) return file;
  }
  return busy;
}

// Whoever had the lock before may have removed or renamed the file between the opening and the locking here.
bool OutputFile::has_its_name() const {
  struct stat own {
  }, named{};
  return ::fstat(descriptor_, &own) == 0 && ::lstat(path_.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

Result<OutputFile::Extent> OutputFile::extent() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return failure("fstat");
  // st_blocks counts 512 bytes whatever the file system's block is.
  return Extent{static_cast<std::uint64_t>(status.st_size), static_cast<std::uint64_t>(status.st_blocks) * 512};
}

Result<void> OutputFile::resize(std::uint64_t bytes) {
  const auto before = extent();
  if (!before) return before.error();
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) return failure("ftruncate");
  if (bytes == 0) return {};
  // File systems that cannot reserve find out about a full disk while writing.
  if (::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    const Error error = failure("fallocate");
    // What was reserved until then would keep the disk full.
    if (::ftruncate(descriptor_, static_cast<off_t>(before->bytes)) != 0) return failure("ftruncate");
    return error;
  }
  return {};
}

Result<void> OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("write");
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> OutputFile::sync() const {
  if (::fdatasync(descriptor_) != 0) return failure("fdatasync");
  // Advice only: packed rows are not read again soon, and memory is needed elsewhere.
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Result<void> sync_folder_of(const std::filesystem::path& path) {
  const auto folder = path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path();
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool failed = descriptor < 0 || ::fsync(descriptor) != 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  // Some network file systems cannot flush a folder.
  if (!failed || (descriptor >= 0 && (reason == EINVAL || reason == ENOTSUP))) return {};
  return Error{ErrorCode::io, folder.string(), "fsync: " + std::generic_category().message(reason), ""};
}

}  // namespace tandem::engram
