// Runs one piece of code per rank, each in a thread of its own, as the ranks of a real group do.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "gpu/comm/communicator.hpp"

namespace tandem::gpu::test {

using Members = std::vector<std::unique_ptr<Communicator>>;

// Calls body(rank) in `size` threads and waits for all of them. Boost.Test macros belong outside: they are not
// thread-safe.
inline void on_all_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

// Returns a port of the loopback interface that was free a moment ago.
inline std::uint16_t free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(descriptor);
  return bound ? ntohs(address.sin_port) : 0;
}

inline TcpGroup tcp_group(int rank, int size, std::uint16_t port) {
  using namespace std::chrono_literals;
  TcpGroup group;
  group.rank = rank;
  group.size = size;
  group.port = port;
  group.token = "run 7";
  group.connect_timeout = 20s;
  group.timeout = 20s;
  return group;
}

// Returns the members of a TCP group inside this process; members that failed are null.
inline Members tcp_members(int size, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const std::uint16_t port = free_port();
  Members members(static_cast<std::size_t>(size));
  on_all_ranks(size, [&](int rank) {
    TcpGroup group = tcp_group(rank, size, port);
    group.timeout = timeout;
    if (auto made = make_tcp_communicator(group)) members[static_cast<std::size_t>(rank)] = std::move(*made);
  });
  return members;
}

// Byte i of what `rank` gives in round `round`.
inline std::byte pattern(int rank, int round, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(rank) * 71 + static_cast<std::size_t>(round) * 13 + i * 7 +
                                i / 251);
}

inline std::vector<std::byte> block(int rank, int round, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = pattern(rank, round, i);
  return out;
}

// One all_gather of `bytes` a rank; true if every block is the right one.
inline bool gathers(Communicator& member, int round, std::size_t bytes, bool in_place = false) {
  const auto local = block(member.rank(), round, bytes);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(member.size()));
  const auto own = std::span(all).subspan(bytes * static_cast<std::size_t>(member.rank()), bytes);
  if (in_place) std::copy(local.begin(), local.end(), own.begin());
  if (!member.all_gather(in_place ? std::span<const std::byte>(own) : std::span<const std::byte>(local), all))
    return false;
  for (int rank = 0; rank < member.size(); ++rank) {
    const auto expected = block(rank, round, bytes);
    if (!std::equal(expected.begin(), expected.end(),
                    all.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<std::size_t>(rank)))) {
      return false;
    }
  }
  return true;
}

}  // namespace tandem::gpu::test
