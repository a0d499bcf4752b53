// POSIX sockets behind Socket: partial transfers, interrupted calls and deadlines are handled here, once.
#include "gpu/comm/socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace tandem::gpu::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Time between two attempts to connect to a rank 0 that does not listen yet.
constexpr auto retry_time = std::chrono::milliseconds(20);

std::string reason(int error) {
  return std::generic_category().message(error);
}

bool is_gone(int error) noexcept {
  return error == EPIPE || error == ECONNRESET || error == ETIMEDOUT || error == ENOTCONN;
}

Error socket_error(const char* call, int error) {
  return {is_gone(error) ? ErrorCode::unavailable : ErrorCode::io, "", fmt::format("{}: {}", call, reason(error)), ""};
}

Result<Addresses> resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return Error{ErrorCode::unavailable, host, ::gai_strerror(failed), "a host name or address"};
  return Addresses(found, &::freeaddrinfo);
}

Socket open_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// Small exchanges decide the speed of a step: no waiting for more bytes to send.
void send_at_once(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// A connection attempt to a free local port can, by simultaneous open, meet itself. That is not rank 0.
bool is_connected_to_itself(const Socket& socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
  if (::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own), &own_length) != 0) return false;
  if (::getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) return false;
  return own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0;
}

// Returns 0, or the reason why this address cannot be reached now.
int start_connection(const Socket& socket, const addrinfo& address, Deadline deadline) {
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  pollfd entry{socket.descriptor(), POLLOUT, 0};
  const auto ready = wait_ready({&entry, 1}, deadline);
  if (!ready || !*ready) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

int try_connect(const Socket& socket, const addrinfo& address, Deadline deadline) {
  const int error = start_connection(socket, address, deadline);
  return error == 0 && is_connected_to_itself(socket) ? ECONNREFUSED : error;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Result<std::size_t> Socket::send_some(std::span<const std::byte> bytes) noexcept {
  for (;;) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno != EINTR) return socket_error("send", errno);
  }
}

Result<std::size_t> Socket::receive_some(std::span<std::byte> bytes) noexcept {
  for (;;) {
    const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return Error{ErrorCode::unavailable, "", "the connection was closed", ""};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno != EINTR) return socket_error("receive", errno);
  }
}

Result<void> Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = send_some(bytes);
    if (!sent) return sent.error();
    bytes = bytes.subspan(*sent);
    if (*sent > 0) continue;
    pollfd entry{descriptor_, POLLOUT, 0};
    const auto ready = wait_ready({&entry, 1}, deadline);
    if (!ready) return ready.error();
    if (!*ready) return Error{ErrorCode::timeout, "", "nothing could be sent", ""};
  }
  return {};
}

Result<void> Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto got = receive_some(bytes);
    if (!got) return got.error();
    bytes = bytes.subspan(*got);
    if (*got > 0) continue;
    pollfd entry{descriptor_, POLLIN, 0};
    const auto ready = wait_ready({&entry, 1}, deadline);
    if (!ready) return ready.error();
    if (!*ready) return Error{ErrorCode::timeout, "", "nothing was received", ""};
  }
  return {};
}

Result<bool> wait_ready(std::span<pollfd> entries, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(std::clamp<long long>(left, 0, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return socket_error("poll", errno);
    if (ready == 0 && std::chrono::steady_clock::now() >= deadline) return false;
  }
}

Result<Socket> listen_on(const std::string& host, std::uint16_t port) {
  const auto addresses = resolve(host, port, AI_PASSIVE);
  if (!addresses) return addresses.error();
  int error = 0;
  for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next) {
    Socket socket = open_socket(*address);
    const int on = 1;
    if (socket.is_open()) ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (socket.is_open() && ::bind(socket.descriptor(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::listen(socket.descriptor(), SOMAXCONN) == 0) {
      return socket;
    }
    error = errno;
  }
  return Error{ErrorCode::unavailable, fmt::format("{}:{}", host, port), "cannot listen: " + reason(error), ""};
}

Result<Socket> accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) {
    send_at_once(socket);
    return socket;
  }
  const int error = errno;
  const bool is_resource = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (is_resource) return Error{ErrorCode::resource, "", "accept: " + reason(error), ""};
  return socket;  // nobody there, or gone before we looked
}

Result<Socket> connect_to(const std::string& host, std::uint16_t port, Deadline deadline) {
  const auto addresses = resolve(host, port, 0);
  if (!addresses) return addresses.error();
  for (;;) {
    int error = 0;
    for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next) {
      Socket socket = open_socket(*address);
      if (!socket.is_open()) return Error{ErrorCode::resource, host, "socket: " + reason(errno), ""};
      error = try_connect(socket, *address, deadline);
      if (error == 0) {
        send_at_once(socket);
        return socket;
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error{ErrorCode::timeout, fmt::format("{}:{}", host, port), "nobody answers: " + reason(error), "rank 0"};
    }
    (void)wait_ready({}, std::min(deadline, deadline_after(retry_time)));
  }
}

}  // namespace tandem::gpu::comm
