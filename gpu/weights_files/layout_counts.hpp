// LayoutCounts: how many of everything a checkpoint has, by the layout that it follows, and how many it should have.
//
//   official      every shard of "-00001-of-00048" to "-00048-of-00048"
//   whole pack    its own shards all there ("of 39"); shards of the official family only for what it does not pack
//   expert banks  official shards for what is not an expert, and banks with every routed expert of the backbone
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "gpu/checkpoint/inventory.hpp"

namespace tandem::gpu {

// Shards whose names tell their number and how many there are: "model-00003-of-00048.safetensors".
struct ShardFamily {
  std::filesystem::path folder;
  std::string stem;             // "model"
  std::size_t size = 0;         // 48
  std::set<std::size_t> there;  // numbers that the checkpoint uses
  bool has_packed = false;      // one of them holds packed matrices
};

struct LayoutCounts {
  std::size_t shards = 0;
  std::size_t banks = 0;
  std::vector<ShardFamily> families;
  std::size_t packed_matrices = 0;  // packed tensors' modules, slices counted alone
  std::size_t native_matrices = 0;  // matrices of the inventory in another storage
  std::size_t banked_experts = 0;   // matrices of routed backbone experts in packed form
  std::size_t expert_matrices = 0;  // that there must be
  std::size_t tables = 0, tables_expected = 0;

  const char* layout() const noexcept;
  // Returns e.g. "whole pack: 41 shards, 47900 packed and 12 native matrices, 2 Engram tables".
  std::string summary() const;
};

LayoutCounts count_layout(const Checkpoint& checkpoint, const ModelConfig& config,
                          std::span<const ExpectedTensor> inventory);

// Returns what is missing by the rules above. `folder` stands in messages.
std::vector<Error> find_count_faults(const LayoutCounts& counts, const std::filesystem::path& folder);

}  // namespace tandem::gpu
