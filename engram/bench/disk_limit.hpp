// What the disk itself can do: random reads of whole pages through io_uring and nothing else. The measure for
// everything that looks up rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "engram/error.hpp"

namespace tandem::engram {

// How often something happened and how long each took, from submission to completion.
struct Rate {
  double per_s = 0;
  double p50_us = 0, p99_us = 0;
};

// Summarises `count` events in `seconds` whose durations are given. Requires at least one duration.
Rate make_rate(std::uint64_t count, double seconds, std::vector<double> durations_us);

struct RandomReads {
  std::filesystem::path file;
  std::uint64_t first_byte = 0, last_byte = 0;  // where reads may fall; page_bytes aligned
  int depth = 64;
  int together = 0;  // 0: `depth` reads are always in flight; else so many start together and all end before the next
  bool direct = true;
  std::chrono::milliseconds duration{2000};
  unsigned seed = 1;
};

inline constexpr std::size_t page_bytes = 4096;

// Reads random pages for the given time. With `together`, per_s counts reads and the durations are those of a group.
// Errors: io, not_found, unavailable (no io_uring, no direct I/O), invalid_argument.
Result<Rate> measure_random_reads(const RandomReads& reads);

}  // namespace tandem::engram
