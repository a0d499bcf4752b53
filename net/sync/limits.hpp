// Every bound of the link between two nodes, once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tandem::net::sync {

inline constexpr std::uint32_t protocol_version = 3;
inline constexpr std::uint16_t default_port = 29510;  // clear of the tensors' 29500 and the actors' 29501

inline constexpr std::size_t control_bytes_max = std::size_t{512}
                                                 << 10;               // the longest is `have`: two digits for 8 chunks
inline constexpr std::size_t data_bytes_max = std::size_t{64} << 20;  // one chunk, or a manifest
inline constexpr std::uint64_t chunk_bytes_min = std::uint64_t{4} << 10;
inline constexpr std::uint64_t chunk_bytes_max = data_bytes_max;
inline constexpr std::uint64_t chunk_bytes_default = std::uint64_t{4} << 20;
inline constexpr std::uint64_t chunks_max = std::uint64_t{1} << 20;  // of one file
inline constexpr std::size_t text_bytes_max = 4096;                  // of a reason or a mount
inline constexpr std::uint64_t digest_bytes_max = std::uint64_t{1} << 20;
static_assert(chunks_max / 4 + 1024 <= control_bytes_max, "the state of the largest file fits into one message");

inline constexpr int connections_max = 64;  // open at a receiver, strangers included
inline constexpr int senders_max = 16;      // connections of one copy

struct Timeouts {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds handshake{5'000};  // all of it: strangers get no more of anybody's time
  std::chrono::milliseconds idle{30'000};      // without a byte, while a message is due or under way
};
// How often a receiver that hashes says that it is alive; well below the idle limit.
inline constexpr std::chrono::milliseconds working_every{1'000};

}  // namespace tandem::net::sync
