// PackPlan: which matrices of a checkpoint are packed, in which groups their bits are chosen, and in which shard each
// one goes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/exl3/allocation.hpp"

namespace tandem::gpu::exl3 {

enum class PackLayout : std::uint8_t {
  whole,    // every matrix whose sides are multiples of 128
  experts,  // routed experts of the backbone alone, as a bank beside the official shards
};

struct PackMatrix {
  std::string module;      // as the pack names it, e.g. "layers.0.attn.wo_a.slice.1"
  std::string source;      // the matrix of the checkpoint that it is, or is a group of outputs of
  std::int64_t first = 0;  // first output in `source`
  std::int64_t n = 0, k = 0;
  std::size_t group = 0;
  std::size_t shard = 0;
};

struct PackPlan {
  std::vector<PackMatrix> matrices;               // in the order of the checkpoint's inventory
  std::vector<BitGroup> groups;                   // sensitivities still zero
  std::vector<std::vector<std::string>> members;  // modules of each group
  std::size_t shards = 0;
};

struct PackWidths {
  int head = 6;   // bits of the output head, 0: chosen with the others
  int draft = 4;  // bits of the draft network
};

// Lists what `layout` packs. A group is one matrix, the slices of one matrix, or the gate and up (or the down)
// projections of all routed experts of a layer. A shard holds at most 64 matrices of one layer.
PackPlan make_pack_plan(std::span<const ExpectedTensor> inventory, PackLayout layout, PackWidths widths);

}  // namespace tandem::gpu::exl3
