// mkostemps, flock, write, fsync, rename, fsync of the folder.
#include "engram/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tandem::engram {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view random_part = ".XXXXXX";  // of mkostemps
constexpr std::string_view mark = ".tandem-new";
constexpr int creating_attempts = 8;

Error io_error(const fs::path& path, const char* call) {
  return {ErrorCode::io, path.string(), fmt::format("{}: {}", call, std::generic_category().message(errno)), ""};
}

Result<void> sync_folder(const fs::path& folder) {
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
Result<fs::path> replaceable(const fs::path& path) {
  std::error_code failed, absent;
  auto file = path;
  if (fs::is_symlink(path, absent)) file = fs::canonical(path, failed);
  if (failed) return Error{ErrorCode::io, path.string(), "a link: " + failed.message(), "a regular file"};
  const auto type = fs::symlink_status(file, absent).type();
  if (type == fs::file_type::regular || type == fs::file_type::not_found) return file;
  return Error{ErrorCode::io, path.string(), "not a regular file", "a regular file, or nothing of that name"};
}

bool has_name(int descriptor, const fs::path& path) {
  struct stat own {
  }, named{};
  return ::fstat(descriptor, &own) == 0 && ::lstat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

bool is_old(const fs::path& path) {
  std::error_code failed;
  const auto written = fs::last_write_time(path, failed);
  return !failed && written < fs::file_time_type::clock::now() - stale_age;
}

// Whoever has the lock may have committed the file meanwhile, and another one created a new one of that name.
void remove_if_stale(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  const bool is_locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  const bool is_stale = is_locked || (errno != EWOULDBLOCK && is_old(path));
  if (is_stale && has_name(descriptor, path)) ::unlink(path.c_str());
  ::close(descriptor);
}

}  // namespace

std::string_view replaced_name(std::string_view temporary) noexcept {
  if (!temporary.ends_with(mark)) return {};
  temporary.remove_suffix(mark.size());
  if (temporary.size() <= random_part.size()) return {};
  const std::string_view random = temporary.substr(temporary.size() - random_part.size());
  if (random.front() != '.' || random.find('.', 1) != std::string_view::npos) return {};
  return temporary.substr(0, temporary.size() - random_part.size());
}

void remove_stale_temporaries(const fs::path& folder, const std::function<bool(std::string_view)>& is_ours) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const std::string_view replaced = replaced_name(name);
    if (!replaced.empty() && is_ours(replaced)) found.push_back(at->path());
  }
  for (const fs::path& path : found) remove_if_stale(path);
}

DurableFile::DurableFile(int descriptor, fs::path temporary, fs::path path)
    : descriptor_(descriptor), temporary_(std::move(temporary)), path_(std::move(path)) {}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      temporary_(std::exchange(other.temporary_, {})),
      path_(std::move(other.path_)) {}

// The name goes before the lock: nobody else may take the file for a dead one's.
DurableFile::~DurableFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<DurableFile> DurableFile::create(const fs::path& path) {
  const auto target = replaceable(path);
  if (!target) return target.error();
  const std::string name = target->filename().string();
  const fs::path folder = target->parent_path();
  remove_stale_temporaries(folder.empty() ? fs::path(".") : folder,
                           [&name](std::string_view replaced) { return replaced == name; });
  for (int attempt = 0; attempt < creating_attempts; ++attempt) {
    auto file = create_temporary(*target);
    if (!file || file->is_ours()) return file;
  }
  return Error{ErrorCode::io, path.string(), "temporary files beside it are removed as soon as they are created", ""};
}

Result<DurableFile> DurableFile::create_temporary(const fs::path& path) {
  std::string name = path.string();
  name.append(random_part).append(mark);
  const int descriptor = ::mkostemps(name.data(), static_cast<int>(mark.size()), O_CLOEXEC);
  if (descriptor < 0) return io_error(path, "create a temporary file beside it");
  DurableFile file(descriptor, name, path);
  if (::fchmod(descriptor, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH) != 0) return io_error(path, "fchmod");
  return file;
}

// Until it is locked somebody may take it for a dead writer's.
bool DurableFile::is_ours() const {
  const bool is_locked_by_another = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return !is_locked_by_another && has_name(descriptor_, temporary_);
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
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(path_, "rename to");
  temporary_.clear();
  ::close(
      std::exchange(descriptor_, -1));  // the lock was the temporary file's; whoever opens the file may want its own
  const auto folder = path_.parent_path();
  return sync_folder(folder.empty() ? fs::path(".") : folder);
}

}  // namespace tandem::engram
