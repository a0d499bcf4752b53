// WeightMeter: what a rank's weights will take, from headers alone. It walks and cuts as the loader does and reads no
// tensor: the Linears that it returns have shapes, formats and byte counts, and no memory.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "gpu/checkpoint/weight_slicer.hpp"

namespace tandem::gpu {

enum class WeightGroup : std::uint8_t {
  routed_experts,
  shared_experts,
  attention,       // low-rank queries, window keys, output projections
  indexer,         // index queries and keys, compressors
  router_and_mix,  // router, norms, sinks, hyper-connections
  embedding,
  head,
  engram,         // resident projections; tables stay in their files
  draft_experts,  // routed experts of the draft network
  draft,          // the rest of it
  vision,         // as stored in the files
};
inline constexpr std::size_t weight_groups = 11;

// Returns the name in reports, e.g. "routed_experts".
const char* to_string(WeightGroup group) noexcept;
WeightGroup group_of(const ExpectedTensor& tensor) noexcept;

struct GroupBytes {
  std::uint64_t codes = 0;  // values, or codes of quantised ones
  std::uint64_t scales = 0;
  std::uint64_t all() const noexcept { return codes + scales; }
};

struct MeasuredWeights {
  ModelWeights shapes;  // as load_weights returns them, every Buffer with its size and without memory
  std::array<GroupBytes, weight_groups> groups{};
  std::uint64_t packed_matrices = 0;                    // EXL3 matrices of the whole model that are loaded
  std::uint64_t packed_experts = 0;                     // of those, matrices of the backbone's routed experts
  std::map<int, std::uint64_t> packed_weights_of_bits;  // bits a weight -> packed weights of the whole model

  const GroupBytes& of(WeightGroup group) const noexcept { return groups[static_cast<std::size_t>(group)]; }
  std::uint64_t bytes() const noexcept;
  // Average over all packed weights; 0 if there are none.
  double packed_bits() const noexcept;
};

struct MeterRequest {
  RankShare share;
  bool draft = true;  // as LoadRequest
};

// Checks the whole inventory first, as loading does. Errors: those of check_ranks and check_inventory;
// invalid_argument (a cut through a Hadamard block: the matrices do not divide over so many ranks).
Result<MeasuredWeights> measure_weights(const Checkpoint& checkpoint, const ModelConfig& config,
                                        const MeterRequest& request);

}  // namespace tandem::gpu
