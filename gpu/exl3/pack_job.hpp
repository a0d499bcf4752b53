// PackJob: what one run of the quantiser is to make, from which checkpoint; everything that the result depends on.
//
// Two runs with the same identity make the same bytes, so the pieces of one may be taken over by the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/config.hpp"
#include "gpu/exl3/pack_plan.hpp"

namespace tandem::gpu::exl3 {

struct PackOptions {
  std::filesystem::path model, out;
  double bits = 3.0;  // average over all packed weights, at most
  PackWidths widths;
  Codebook codebook = Codebook::mul1;
  PackLayout layout = PackLayout::whole;
  bool packed_only = false;  // write no native tensor: the pack refers to the model folder for them
  std::string only;          // pack only matrices whose names begin like this; the rest stays in the model folder
  int threads = 1;
  std::vector<std::vector<std::int32_t>> sequences;  // calibration tokens, none empty
  const std::atomic<bool>* stop = nullptr;           // set: end with `cancelled` soon
};

struct PackJob {
  PackOptions options;
  ModelConfig config;
  Checkpoint checkpoint;
  std::vector<ExpectedTensor> inventory;
  PackPlan plan;
  std::string identity;  // hash of the options, the calibration and the checkpoint

  // Reads headers and a sample of every tensor. Errors: those of opening the model; those of check_calibration;
  // invalid_argument (a model that is packed already, no matrix to pack, bits outside 1 to 8).
  static Result<PackJob> open(const PackOptions& options);

  // True if everything that is not packed stays in the model folder.
  bool refers_natives() const noexcept;
  bool is_stopped() const noexcept { return options.stop != nullptr && options.stop->load(std::memory_order_relaxed); }
  Error stopped() const { return {ErrorCode::cancelled, options.out.string(), "packing was stopped", ""}; }
};

}  // namespace tandem::gpu::exl3
