// Engine: one rank of the model. Loads a checkpoint, owns all memory of the sequences, executes step plans.
//
// One thread uses an Engine at a time (the rank worker's own thread). All ranks of a group call step() with the same
// plans in the same order; they meet inside through the Communicator. After an error of step() the engine is dead: its
// state may differ between ranks.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "engram/error.hpp"
#include "gpu/comm/communicator.hpp"
#include "gpu/comm/device_group.hpp"
#include "gpu/config.hpp"
#include "gpu/engram_options.hpp"
#include "gpu/step_plan.hpp"

namespace tandem::gpu {

struct EngineOptions {
  std::filesystem::path model;  // folder in one of the loadable layouts
  std::string numerics = "serve";
  std::string backend = "cpu";         // what computes: see gpu/backend.hpp
  std::int64_t max_positions = 0;      // longest sequence; 0 = the model's own limit
  std::int64_t kv_tokens = 0;          // positions in all page pools; 0 = lanes_max * max_positions, capped
  int lanes_max = 8;                   // sequences that may be open at once
  int chunk_rows_max = 512;            // most rows of one sequence in one step
  int threads = 0;                     // compute threads of this rank; 0 = cores / ranks
  bool draft = true;                   // load and run the draft network if the checkpoint has one
  std::filesystem::path cache_folder;  // keeps what is costly to derive, e.g. a token map; empty = keep nothing
  EngramOptions engram;
  DeviceGroupOptions devices;  // of the CUDA backend
  // Told about every fallback and every file that is passed over, by the thread that loads; may be empty.
  std::function<void(const std::string&)> announce;
};

// What a rank knows about itself once loaded.
struct EngineInfo {
  std::string model_name;  // folder name
  int layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  std::int64_t page_tokens = 0;  // positions per unit of the scheduler's page accounting
  std::int64_t pages_total = 0;
  int lanes_max = 0;
  int chunk_rows_max = 0;
  int drafts_max = 0;  // 0 = no draft network
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::uint64_t config_hash = 0;  // equal on all ranks or they must not work together
  TokenId bos_id = 0, eos_id = 1, pad_id = 2;
};

// Fraction 0..1 of loading done and what is being loaded; called from the loading thread.
using LoadProgress = std::function<void(double fraction, const std::string& what)>;

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const EngineInfo& info() const noexcept = 0;
  // Executes one plan. Errors: mismatch (plan hash differs between ranks), cancelled, timeout, unavailable (a peer is
  // gone), io (Engram rows unreadable), invalid_argument (a plan that breaks the contract: unknown id, wrong start, too
  // many rows).
  virtual Result<StepResult> step(const StepPlan& plan) = 0;
};

// Lets a group exchange device memory without a detour, where the backend of `options` has devices and its ranks can;
// it then replaces `group`. For every rank of the group, before load_engine; `stop` (may be null) ends it early.
// Errors: those of device_of and of reach_devices, which leave `group` as it was.
Result<void> reach_devices(const EngineOptions& options, std::unique_ptr<Communicator>& group,
                           const std::atomic<bool>* stop);

// Loads this rank of the model. `communicator` must outlive the engine. `stop` (may be null) ends loading early with
// `cancelled`.
Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& options, Communicator& communicator,
                                            const LoadProgress& progress, const std::atomic<bool>* stop);

}  // namespace tandem::gpu
