// One server per address and state folder: the lock that says that its holder is alive. See port_owner.hpp for who
// answers at an address.
//
// The lock is a file held by flock: it is free the moment its process is gone, however it went. A pid or a name proves
// nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engram/error.hpp"

namespace tandem::ops {

class InstanceLock {
 public:
  // Takes `file` and writes `identity` into it. nullopt: another live process holds it. Errors: io.
  static Result<std::optional<InstanceLock>> take(const std::filesystem::path& file, const std::string& identity);
  // Returns the identity that the holder wrote; empty if unreadable.
  static std::string read_identity(const std::filesystem::path& file);

  InstanceLock(InstanceLock&& other) noexcept;
  InstanceLock& operator=(InstanceLock&&) = delete;
  ~InstanceLock();

 private:
  explicit InstanceLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace tandem::ops
