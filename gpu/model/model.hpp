// Model: what one rank keeps of a checkpoint while it serves, and nothing about any sequence.
//
// Configuration, numerics, weights, the operations of its backend, the rotation tables and the Engram tables. Read only
// after loading.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "gpu/comm/communicator.hpp"
#include "gpu/config.hpp"
#include "gpu/engine.hpp"
#include "gpu/model/engram_tables.hpp"
#include "gpu/numerics.hpp"
#include "gpu/ops.hpp"
#include "gpu/rope_table.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

struct ModelOptions {
  std::filesystem::path folder;
  std::string numerics = "serve";
  std::string backend = "cpu";         // see gpu/backend.hpp
  DeviceGroupOptions devices;          // which device of the CUDA backend
  std::int64_t max_positions = 0;      // rotation tables cover these and a draft block; 0 = the model's own limit
  int threads = 1;                     // of this rank
  bool draft = true;                   // load the draft network if the checkpoint has one
  std::filesystem::path cache_folder;  // see EngineOptions
  EngramOptions engram;
  std::function<void(const std::string&)> announce;  // see EngineOptions
};

struct Model {
  ModelConfig config;  // dspark.stages is 0 if the draft network was not loaded
  Numerics numerics;
  std::unique_ptr<Ops> ops;  // outlives the weights that lie in its memory
  ModelWeights weights;
  std::unique_ptr<RopeTable> rope_plain;       // ratio-0 layers and draft stages
  std::unique_ptr<RopeTable> rope_compressed;  // ratio > 0: compress_theta with YaRN
  std::unique_ptr<EngramTables> engram;        // null if the model has none
  Communicator* communicator = nullptr;
  std::int64_t max_positions = 0;
  std::uint64_t content_hash = 0;  // of the checkpoint's tensors, see gpu/checkpoint/content_hash.hpp

  int ranks() const noexcept { return communicator->size(); }
  // Whether the exchange between ranks goes by way of host memory, for which a pass waits.
  bool waits_for_ranks() const noexcept { return ranks() > 1 && !communicator->reaches_devices(); }
  RopeView rope_of(const LayerRole& role) const noexcept {
    return role.ratio == 0 ? rope_plain->view() : rope_compressed->view();
  }
};

// Loads this rank's part. Errors: those of the configuration, the checkpoint and the Engram tables; invalid_argument
// (numerics name, rank count); cancelled if *stop becomes true.
Result<std::unique_ptr<Model>> load_model(const ModelOptions& options, Communicator& communicator,
                                          const LoadProgress& progress, const std::atomic<bool>* stop);

}  // namespace tandem::gpu
