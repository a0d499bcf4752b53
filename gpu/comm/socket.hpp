// Socket: one non-blocking TCP descriptor, and the few operations that the communicator needs on it.
//
// No call blocks except wait_ready(), which has a deadline. EINTR is handled here and nowhere else.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "engram/error.hpp"

namespace tandem::gpu::comm {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline deadline_after(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + timeout;
}

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  bool is_open() const noexcept { return descriptor_ >= 0; }
  int descriptor() const noexcept { return descriptor_; }
  void close() noexcept;

  // Send or receive what is possible now; 0 = nothing possible yet. Errors: unavailable (the peer is gone), io.
  Result<std::size_t> send_some(std::span<const std::byte> bytes) noexcept;
  Result<std::size_t> receive_some(std::span<std::byte> bytes) noexcept;

  // Send or receive everything before the deadline. Errors: timeout, unavailable, io.
  Result<void> send_all(std::span<const std::byte> bytes, Deadline deadline);
  Result<void> receive_all(std::span<std::byte> bytes, Deadline deadline);

 private:
  int descriptor_ = -1;
};

// Waits until one of the entries is ready; false at the deadline. Errors: io.
Result<bool> wait_ready(std::span<pollfd> entries, Deadline deadline);

// Listens on exactly this address. Errors: unavailable (address in use, unknown host).
Result<Socket> listen_on(const std::string& host, std::uint16_t port);
// Takes a waiting connection; a closed Socket if there is none. Errors: io, resource.
Result<Socket> accept_from(const Socket& listener);
// Connects, trying again until the deadline while nobody listens. Errors: timeout naming the address, unavailable
// (unknown host).
Result<Socket> connect_to(const std::string& host, std::uint16_t port, Deadline deadline);

}  // namespace tandem::gpu::comm
