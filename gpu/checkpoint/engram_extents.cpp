// Resolves the table tensors through the index; shapes are those of the inventory.
#include "gpu/checkpoint/engram_extents.hpp"

#include "gpu/checkpoint/inventory.hpp"

namespace tandem::gpu {
namespace {

RowExtent extent_of(const TensorPlace& place) {
  return {place.shard->path(), place.entry->offset, place.entry->shape.at(0), place.entry->shape.at(1)};
}

}  // namespace

Result<std::vector<EngramExtents>> find_engram_extents(const Checkpoint& checkpoint, const ModelConfig& config) {
  std::vector<EngramExtents> extents;
  for (const ExpectedTensor& tensor : make_inventory(config)) {
    if (tensor.group != TensorGroup::engram_table) continue;
    if (const Result<Storage> storage = find_storage(checkpoint, tensor); !storage) return storage.error();
    extents.push_back(
        {tensor.layer, extent_of(*checkpoint.find(tensor.name)), extent_of(*checkpoint.find(tensor.scale_name()))});
  }
  return extents;
}

}  // namespace tandem::gpu
