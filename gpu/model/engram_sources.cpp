// Extents of the checkpoint and numbers of the configuration, handed over field by field.
#include "gpu/model/engram_sources.hpp"

#include "gpu/checkpoint/engram_extents.hpp"

namespace tandem::gpu {
namespace {

engram::FileExtent file_extent(const RowExtent& extent) {
  return {extent.file, extent.offset, static_cast<std::uint64_t>(extent.rows * extent.row_bytes)};
}

}  // namespace

Result<std::vector<engram::ShardTable>> find_engram_sources(const ModelConfig& config, const Checkpoint& checkpoint) {
  const auto extents = find_engram_extents(checkpoint, config);
  if (!extents) return extents.error();
  std::vector<engram::ShardTable> tables;
  for (const EngramExtents& extent : *extents) {
    tables.push_back(
        {{config.engram.head_dim}, extent.codes.rows, file_extent(extent.codes), file_extent(extent.scales)});
  }
  return tables;
}

Result<engram::Geometry> make_engram_geometry(const EngramConfig& config, engram::ClassId pad_class) {
  engram::GeometrySpec spec;
  spec.layers = config.layers;
  spec.rows = config.rows;
  spec.max_ngram = config.max_ngram;
  spec.heads = config.heads;
  spec.head_dim = config.head_dim;
  spec.vocab_size = config.vocab_size;
  spec.compressed_vocab_size = config.compressed_vocab_size;
  spec.pad_class = pad_class;
  return engram::Geometry::make(spec);
}

}  // namespace tandem::gpu
