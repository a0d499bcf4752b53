// One server per address and state folder: the lock that proves that "ours" is alive, and who else holds a port.
//
// The lock is a file held by flock: it is free the moment its process is gone, however it went. A pid or a name proves
// nothing.
#pragma once

#include <cstdint>
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

// Returns true if an HTTP server at host:port answers GET /livez with 200 within two seconds.
bool answers_livez(const std::string& host, std::uint16_t port);

// Returns "pid 123 (command)" of the process that listens on the TCP port, or "an unknown process".
std::string describe_port_owner(std::uint16_t port);

}  // namespace tandem::ops
