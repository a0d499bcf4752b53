// Memory that a plan must count although no code of ours says its size: one named figure each, with its reason.
#pragma once

#include <cstdint>

namespace tandem::gpu {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;

// Program text, actors and their queues, tokenizer tables, HTTP connections: a head of the tiny model, whose weights
// take 16 MB, stays below 200 MB under load; the full vocabulary adds some 60 MB of tokenizer.
inline constexpr std::uint64_t host_heap_bytes = 320 * mib;
// Bodies of requests in flight: the default of api.bodies_bytes_max. Only the head has them.
inline constexpr std::uint64_t request_bodies_bytes = 256 * mib;
// Names, ranges and headers of a hundred thousand tensors while they are loaded.
inline constexpr std::uint64_t headers_bytes = 96 * mib;
// Socket buffers in both directions and the registered or pinned buffers of a collective library, per group.
inline constexpr std::uint64_t communication_bytes = 256 * mib;

// A CUDA context: the driver's own memory, module code of all kernels, local memory of the widest launch.
inline constexpr std::uint64_t device_context_bytes = 640 * mib;
// Captured parts of steps, at most 128 (step_graphs.cpp): some 40 layers x 35 nodes of 1 KiB each.
inline constexpr std::uint64_t device_graphs_bytes = 192 * mib;
// Staging areas: 32 MiB pinned and its device twin, two halves of 4 MiB for a step and their twin.
inline constexpr std::uint64_t device_staging_bytes = 76 * mib;
// Weights are placed in blocks of 64 MiB; on average one is half full, and every matrix is rounded up to 256 bytes.
inline constexpr std::uint64_t device_block_slack_bytes = 64 * mib;

// One read in flight covers at most two sectors of 4 KiB: a row of 264 bytes may straddle them.
inline constexpr std::uint64_t engram_read_bytes = 8192;
// The rows of a step are held twice: those being collected and those already asked for.
inline constexpr std::uint64_t engram_steps_held = 2;

}  // namespace tandem::gpu
