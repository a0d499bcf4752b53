// pack_model: quantises a checkpoint, from calibration to a folder that loads.
//
//   1  disturb one group of matrices after the other: how much does the model's answer change
//   2  choose bits for every group, so that the average is met
//   3  run the model over calibration tokens: second moments of the inputs of the next matrices
//   4  quantise them; each becomes a piece, the pieces of a shard become the shard
//   5  native tensors, configuration, references, index
//
// Every step ends with a file that appears complete or not at all, and the next run with the same options goes on
// behind the last one, however this one ended. The result is the same bytes whether it was stopped or not and whatever
// the number of threads. Memory is bounded by the model, 2 GiB of moments and the largest shard.
//
// Layouts: `whole` holds every matrix packed and the other tensors as they were, but refers to the model folder
// (overlay.json) for Engram tables; with packed_only for everything that is not packed. `experts` is a bank of the
// routed experts beside the official shards of the model folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gpu/exl3/pack_job.hpp"

namespace tandem::gpu::exl3 {

struct PackProgress {
  enum class Step : std::uint8_t { measuring, calibrating, packing, finishing };
  Step step = Step::measuring;
  std::string what;         // group or matrix in work
  double fraction = 0;      // of the step
  std::size_t resumed = 0;  // matrices taken over from an earlier run
};
// Called before every piece of work, in the calling thread.
using OnPackProgress = std::function<void(const PackProgress&)>;

struct PackReport {
  std::size_t matrices = 0;
  std::size_t resumed = 0;  // of them, found complete
  double average_bits = 0;
  std::uint64_t bytes = 0;       // of packed tensors
  std::int64_t tiles = 0;        // quantised in this run
  double tile_seconds = 0;       // that they took
  double mean_proxy_error = 0;   // of the matrices packed in this run, weighted by size
  double worst_proxy_error = 0;  // of them
  std::string worst_matrix;
};

// Errors: those of PackJob::open and of the forward pass; invalid_argument (a budget that cannot be met, a folder
// that holds something else); resource (not enough space on the disk); unavailable (another process works in the
// folder); io; cancelled.
Result<PackReport> pack_model(const PackOptions& options, const OnPackProgress& progress = {});

}  // namespace tandem::gpu::exl3
