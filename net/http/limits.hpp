// Every bound of the HTTP side in one place. A request that crosses one gets its own status; nothing grows without a
// limit.
//
// The values are the contract's defaults; tests shorten the times.
#pragma once

#include <chrono>
#include <cstddef>

namespace tandem::net::http {

struct Limits {
  std::size_t header_bytes = 32 * 1024;           // 431
  std::size_t target_bytes = 8 * 1024;            // 414
  std::size_t body_bytes = 64 * 1024 * 1024;      // 413; a 600k-token history with escapes is about 10 MiB
  std::size_t bodies_bytes = 256 * 1024 * 1024;   // of all connections at once: 503
  std::size_t connections = 16384;                // 503; lowered to what the descriptor limit allows
  std::size_t unsent_bytes = 1024 * 1024;         // output waiting for a slow reader; past it the request is aborted
  std::chrono::milliseconds header_read{10'000};  // from the first byte of a request to the end of its header: 408
  std::chrono::milliseconds body_stall{60'000};   // body read without progress: 408
  std::chrono::milliseconds idle{75'000};         // keep-alive without a request: closed; proxies use 60 s
  std::chrono::milliseconds write_stall{30'000};  // write without progress: closed, the request is aborted
  std::chrono::milliseconds linger{2'000};        // after an early refusal: read and discard so that the answer arrives
};

}  // namespace tandem::net::http
