// HttpCounters: what only the HTTP side can count, for /metrics.
#pragma once

#include "actors/generation.hpp"
#include "actors/runtime_snapshot.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::net::http {

struct HttpCounts {
  std::map<std::pair<std::string, int>, std::uint64_t> responses;  // by route and status
  std::uint64_t disconnects = 0;                                   // the client left before its answer was complete
  std::uint64_t slow_readers = 0;                                  // given up because the client did not read
  std::uint64_t prompt_tokens = 0;  // of finished requests: looked up in the prefix cache
  std::uint64_t cached_tokens = 0;  // of those, found
  actors::Histogram max_tokens;     // as requested; 0 (not given) is not observed
  actors::Histogram choices;
};

class HttpCounters {
 public:
  HttpCounters();
  HttpCounts read() const;
  void count_response(std::string_view route, int status);
  void count_disconnect();
  void count_slow_reader();
  void count_request(std::uint32_t max_tokens, int choices);
  void count_usage(const actors::Usage& usage);

 private:
  mutable std::mutex mutex_;
  HttpCounts counts_;
};

}  // namespace tandem::net::http
