// What a fetch says while it works.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tandem::net::fetch {

struct FetchProgress {
  std::size_t files_done = 0, files_total = 0;
  std::uint64_t bytes_done = 0, bytes_total = 0;
  double bytes_per_s = 0;  // received over the network
  double eta_s = 0;        // 0 while the rate is unknown
};

struct FetchWatch {
  std::function<void(const FetchProgress&)> progress;  // twice a second and at the end; may be empty
  std::function<void(const std::string&)> announce;    // retries, files that start over; may be empty

  void say(const std::string& text) const {
    if (announce) announce(text);
  }
};

}  // namespace tandem::net::fetch
