// MemoryPlan: every byte that one rank of a deployment will hold, computed from headers and configuration before
// anything is allocated, and whether it fits the machine.
//
// Sizes come from the code that will take them: weights from the loader's walk, caches from CacheLayout, the step from
// a rehearsal of the forward pass. What no code of ours decides (a driver's context, allocator slack) is a named
// allowance in allowances.hpp. All ranks of a group hold the same, since a model divides evenly or is refused.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/engram_options.hpp"
#include "gpu/plan/rehearsal.hpp"
#include "gpu/plan/weight_meter.hpp"

namespace tandem::gpu {

struct PlanRequest {
  std::filesystem::path model;
  std::string backend = "cpu";  // "cpu" or "cuda"; it need not be in this build
  std::string numerics = "serve";
  int ranks = 1;
  int ranks_here = 1;          // of them on the machine whose memory is stated
  int threads = 1;             // compute threads of one rank
  StepLimits step;             // context 0 = the model's limit
  std::int64_t kv_tokens = 0;  // positions of all caches together; 0 = what the engine takes: lanes x context
  std::uint64_t kv_bytes = 0;  // instead of kv_tokens: as many whole pages as fit
  bool draft = true;
  EngramOptions engram;
  std::uint64_t available_bytes = 0;  // what the machine can give, e.g. MemAvailable
  std::uint64_t margin_bytes = 0;     // of it, to be left alone
};

enum class PlanPart : std::uint8_t { weights, caches, step, engram, process };
inline constexpr std::size_t plan_parts = 5;
const char* to_string(PlanPart part) noexcept;

struct PlanLine {
  PlanPart part = PlanPart::weights;
  std::string name;  // unique within its part
  std::uint64_t bytes = 0;
  std::string reason;  // one clause: what it is made of
};

struct PlanFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
};

struct MemoryPlan {
  PlanRequest request;  // context filled in
  std::string layout;   // "official", "exl3" or "exl3 experts"
  std::uint64_t tensors = 0;
  std::uint64_t packed_matrices = 0;
  double packed_bits = 0;  // a packed weight, average
  std::uint64_t weight_bytes = 0;
  std::int64_t page_tokens = 0;
  std::int64_t kv_tokens = 0;  // that the pools hold: whole pages
  std::uint64_t kv_pool_bytes = 0;
  std::int64_t step_rows = 0;
  std::uint64_t table_bytes = 0;  // Engram rows that stay in their files
  std::vector<PlanLine> lines;    // by part
  std::vector<PlanFile> files;
  // The longest sequence that this deployment can prefill: bounded by the model, the pools and the memory; 0: none.
  std::int64_t largest_context = 0;

  std::uint64_t bytes_of(PlanPart part) const noexcept;
  std::uint64_t rank_bytes() const noexcept;
  // Of all ranks on the machine.
  std::uint64_t machine_bytes() const noexcept;
  // Of the stated memory, above the margin; negative: missing.
  std::int64_t bytes_left() const noexcept;
  double kv_bytes_per_token() const noexcept;
  bool fits() const noexcept { return request.step.context <= largest_context; }
};

// Errors: those of Checkpoint::open, ModelConfig::load and measure_weights (code invalid_argument: the matrices do not
// divide over the ranks); invalid_argument (limits that contradict each other or the model).
Result<MemoryPlan> plan_memory(const PlanRequest& request);

// The same for a folder that is open already; `config` and `checkpoint` are request.model's.
Result<MemoryPlan> plan_memory(const PlanRequest& request, const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace tandem::gpu
