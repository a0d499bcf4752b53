// Loads the resident weights of one rank. Engram tables stay on disk (engram_extents.hpp); vision tensors are skipped.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>

#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/checkpoint/weight_placer.hpp"
#include "gpu/config.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

struct LoadRequest {
  int rank = 0;
  int ranks = 1;
  bool draft = true;                               // load the draft network if the checkpoint has one
  std::size_t piece_bytes = std::size_t{1} << 20;  // most bytes in flight between file and weights
  // Fraction 0..1 and the tensor just loaded; called from the calling thread, at most about 200 times.
  std::function<void(double fraction, const std::string& what)> progress;
  const std::atomic<bool>* stop = nullptr;  // set: end early with `cancelled`
  // Takes each weight where it is used, as soon as it was read; null: all of them stay in host memory. Beside what
  // stays there, loading holds the largest tensor of the rank and `piece_bytes`.
  WeightPlacer* placer = nullptr;
};

// Returns rank `rank`'s weights, sliced as weights.hpp says. The whole inventory is checked first, so no weight is read
// from a checkpoint that does not fit its configuration. Errors: those of check_ranks and check_inventory, io, corrupt
// (NaN, named by tensor and index; a foreign codebook), cancelled, resource (not enough memory).
Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const LoadRequest& request);

// Opens `folder` and loads from it; `config` is that folder's.
Result<ModelWeights> load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                                  const LoadRequest& request);

}  // namespace tandem::gpu
