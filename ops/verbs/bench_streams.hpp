// BenchStreams: the clients of `tandem bench`. Real sockets, real requests, real event streams, read as fast as they
// come by one thread of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::ops {

class BenchStreams {
 public:
  // Connects once a body and posts it to /v1/chat/completions on the loopback's `port`.
  BenchStreams(std::uint16_t port, std::vector<std::string> bodies);
  ~BenchStreams();  // hangs up
  BenchStreams(const BenchStreams&) = delete;
  BenchStreams& operator=(const BenchStreams&) = delete;

  // Why a stream ended that should not have, if one did.
  std::optional<std::string> failure() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::ops
