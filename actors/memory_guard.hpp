// The memory guard: samples the node's memory once a second and publishes it with a level. On the target machines host
// memory is device memory, so MemAvailable is the figure that decides whether the node lives.
#pragma once

#include <filesystem>

#include "actors/handles.hpp"

namespace tandem::actors {

struct MemoryGuardOptions {
  std::chrono::milliseconds period{1000};
  std::uint64_t low_bytes = 3ULL << 30;       // below: level "low"
  std::uint64_t critical_bytes = 1ULL << 30;  // below: level "critical"
  std::filesystem::path proc = "/proc";
};

// Reads meminfo and the process's resident size under `proc`. Errors: io, bad_format.
Result<MemorySample> sample_memory(const MemoryGuardOptions& options);

memory_guard_actor spawn_memory_guard(caf::actor_system& system, MemoryGuardOptions options, SnapshotBoard* board);

}  // namespace tandem::actors
