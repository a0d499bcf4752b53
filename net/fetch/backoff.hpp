// Backoff: how long to wait before the next attempt, and when to give up.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <string_view>

#include "net/fetch/options.hpp"

namespace tandem::net::fetch {

class Backoff {
 public:
  // `seed` only spreads clients that failed together.
  Backoff(const FetchLimits& limits, std::uint64_t seed) : limits_(limits), random_(seed) {}

  // Returns the wait before the next attempt; nothing when all attempts are used up. Doubles from attempt to attempt up
  // to the limit, of which a random half is dropped. `asked` is what the server wants (Retry-After): it is never
  // shortened, and beyond the limit it is a reason to give up.
  std::optional<std::chrono::milliseconds> next(std::optional<std::chrono::seconds> asked = std::nullopt);
  // The last attempt got further: the count starts anew.
  void reset() noexcept { failures_ = 0; }
  int failures() const noexcept { return failures_; }

 private:
  FetchLimits limits_;
  std::mt19937_64 random_;
  int failures_ = 0;
};

// Returns the wait that a Retry-After field asks for: seconds, or a date in the format of HTTP against `now`; nothing
// if it is neither.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view field,
                                                      std::chrono::system_clock::time_point now);

}  // namespace tandem::net::fetch
