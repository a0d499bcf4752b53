// The lock is flock on a file; the kernel drops it with the last descriptor, however its process ends.
#include "ops/instance_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace tandem::ops {

namespace fs = std::filesystem;

Result<std::optional<InstanceLock>> InstanceLock::take(const fs::path& file, const std::string& identity) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return Error{ErrorCode::io, file.string(), std::strerror(errno), "a writable lock file"};
  InstanceLock lock{descriptor};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::optional<InstanceLock>{};
    return Error{ErrorCode::io, file.string(), std::strerror(errno), "a lock"};
  }
  // Written before the rest is cut off: the same identity of an earlier holder is readable all the time.
  const auto size = static_cast<off_t>(identity.size());
  if (::pwrite(descriptor, identity.data(), identity.size(), 0) < 0 || ::ftruncate(descriptor, size) != 0)
    return Error{ErrorCode::io, file.string(), std::strerror(errno), "a writable lock file"};
  return std::optional<InstanceLock>{std::move(lock)};
}

std::string InstanceLock::read_identity(const fs::path& file) {
  std::ifstream in{file};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

InstanceLock::InstanceLock(InstanceLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

InstanceLock::~InstanceLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace tandem::ops
