// mkostemp, write, fsync, rename, fsync of the folder.
#include "engram/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tandem::engram {
namespace {

Error io_error(const std::filesystem::path& path, const char* call) {
  return {ErrorCode::io, path.string(), fmt::format("{}: {}", call, std::generic_category().message(errno)), ""};
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return io_error(folder, "open");
  const int failed = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  // Some network file systems cannot flush a folder; the rename itself is then as durable as they make it.
  if (failed != 0 && reason != EINVAL && reason != ENOTSUP) return io_error(folder, "fsync");
  return {};
}

// The name that commit() may take. Renaming would replace whatever has it: a link instead of the file behind it, and
// even a device.
Result<std::filesystem::path> replaceable(const std::filesystem::path& path) {
  std::error_code failed, absent;
  auto file = path;
  if (std::filesystem::is_symlink(path, absent)) file = std::filesystem::canonical(path, failed);
  if (failed) return Error{ErrorCode::io, path.string(), "a link: " + failed.message(), "a regular file"};
  const auto type = std::filesystem::symlink_status(file, absent).type();
  if (type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found) return file;
  return Error{ErrorCode::io, path.string(), "not a regular file", "a regular file, or nothing of that name"};
}

}  // namespace

DurableFile::DurableFile(int descriptor, std::filesystem::path temporary, std::filesystem::path path)
    : descriptor_(descriptor), temporary_(std::move(temporary)), path_(std::move(path)) {}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      temporary_(std::exchange(other.temporary_, {})),
      path_(std::move(other.path_)) {}

DurableFile::~DurableFile() {
  close_descriptor();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void DurableFile::close_descriptor() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Result<DurableFile> DurableFile::create(const std::filesystem::path& path) {
  const auto target = replaceable(path);
  if (!target) return target.error();
  std::string name = target->string() + ".XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return io_error(path, "create a temporary file beside it");
  DurableFile file(descriptor, name, *target);
  if (::fchmod(descriptor, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH) != 0) return io_error(path, "fchmod");
  return file;
}

Result<void> DurableFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error(temporary_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> DurableFile::commit() {
  if (::fsync(descriptor_) != 0) return io_error(temporary_, "fsync");
  close_descriptor();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(path_, "rename to");
  temporary_.clear();
  const auto folder = path_.parent_path();
  return sync_folder(folder.empty() ? std::filesystem::path(".") : folder);
}

}  // namespace tandem::engram
