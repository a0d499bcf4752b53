// What bounds a fetch: connections, waits, attempts. Every wait has a limit and every loop a count.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace tandem::net::fetch {

inline constexpr int connections_max = 8;

struct FetchLimits {
  int connections = connections_max;
  // What a kill costs at most is this for each connection. A segment is one request and one flush of the disk: 32 MiB
  // keep both below 1 % of the time at 1 GB/s.
  std::uint64_t segment_bytes = std::uint64_t{32} << 20;
  std::chrono::milliseconds connect{30'000};  // each of: the name, TCP, TLS
  std::chrono::milliseconds read{120'000};    // silence of the server: before an answer and inside of it
  std::uint64_t trickle_bytes = 64 << 10;     // less than this within the read limit is as bad as silence
  int attempts = 8;                           // of one request, without getting any further
  std::chrono::milliseconds backoff_first{500};
  std::chrono::milliseconds backoff_max{60'000};
  std::chrono::seconds retry_after_max{600};  // a server that asks for more is given up
  int redirects = 5;                          // of one request
  int restarts = 2;                           // of one file that changed on the server or had the wrong hash
};

// Whom to believe and what to tell him.
struct FetchAccess {
  std::filesystem::path ca_file;  // certificates to trust instead of the system's; empty = the system's
  std::string token;              // bearer token for the first address's origin alone; empty = none
};

}  // namespace tandem::net::fetch
