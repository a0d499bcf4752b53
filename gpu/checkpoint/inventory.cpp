// The list itself, block by block, in the order of the tables in the checkpoint's documentation: globals, layers,
// Engram, draft stages.
#include "gpu/checkpoint/inventory.hpp"

#include <fmt/format.h>

#include <numeric>

namespace tandem::gpu {
namespace {

constexpr std::int64_t scale_block = 32;

std::int64_t blocks(std::int64_t size) {
  return (size + scale_block - 1) / scale_block;
}

// Appends tensors under one prefix to a list.
class Section {
 public:
  Section(std::vector<ExpectedTensor>& list, std::string prefix, TensorGroup group, int layer)
      : list_(list), prefix_(std::move(prefix)), group_(group), layer_(layer) {}

  ExpectedTensor& plain(const std::string& name, std::vector<std::int64_t> shape, Storage storage = Storage::bf16) {
    return add(name, std::move(shape), storage, TensorUse::plain);
  }
  void table(const std::string& name, std::int64_t n, std::int64_t k) {
    add(name + ".weight", {n, k}, Storage::bf16, TensorUse::row_table);
  }
  void router(const std::string& name, std::int64_t n, std::int64_t k) {
    add(name + ".weight", {n, k}, Storage::bf16, TensorUse::router);
  }
  ExpectedTensor& matrix(const std::string& name, std::int64_t n, std::int64_t k, Storage storage) {
    return add(name + ".weight", {n, k}, storage, TensorUse::matrix);
  }
  void engram_rows(const std::string& name, std::int64_t n, std::int64_t k) {
    add(name + ".weight", {n, k}, Storage::fp8_rows, TensorUse::engram_rows);
  }

 private:
  ExpectedTensor& add(const std::string& name, std::vector<std::int64_t> shape, Storage storage, TensorUse use) {
    return list_.emplace_back(ExpectedTensor{prefix_ + name, std::move(shape), storage, use, group_, layer_, false, 1});
  }

  std::vector<ExpectedTensor>& list_;
  std::string prefix_;
  TensorGroup group_;
  int layer_;
};

void add_expert(Section& at, const std::string& name, const ModelConfig& c, Storage storage) {
  at.matrix(name + ".w1", c.moe_intermediate, c.hidden, storage);
  at.matrix(name + ".w2", c.hidden, c.moe_intermediate, storage);
  at.matrix(name + ".w3", c.moe_intermediate, c.hidden, storage);
}

// What every backbone layer and every draft stage has: two norms, two mHC sites, attention, router and experts.
void add_block(Section& at, const ModelConfig& c, int experts) {
  for (const char* site : {"attn", "ffn"}) {
    at.plain(fmt::format("{}_norm.weight", site), {c.hidden});
    at.plain(fmt::format("hc_{}_fn", site), {c.mix_width(), c.streams_width()}, Storage::f32);
    at.plain(fmt::format("hc_{}_base", site), {c.mix_width()}, Storage::f32);
    at.plain(fmt::format("hc_{}_scale", site), {3}, Storage::f32);
  }
  at.plain("attn.attn_sink", {c.heads}, Storage::f32);
  at.matrix("attn.wq_a", c.q_lora_rank, c.hidden, Storage::fp8_block32);
  at.plain("attn.q_norm.weight", {c.q_lora_rank});
  at.matrix("attn.wq_b", c.q_width(), c.q_lora_rank, Storage::fp8_block32);
  at.matrix("attn.wkv", c.head_dim, c.hidden, Storage::fp8_block32);
  at.plain("attn.kv_norm.weight", {c.head_dim});
  at.matrix("attn.wo_a", std::int64_t{c.o_groups} * c.o_lora_rank, c.group_width(), Storage::fp8_block32).slices =
      c.o_groups;
  at.matrix("attn.wo_b", c.hidden, std::int64_t{c.o_groups} * c.o_lora_rank, Storage::fp8_block32);
  at.router("ffn.gate", experts, c.hidden);
  at.plain("ffn.gate.bias", {experts}, Storage::f32);
  at.plain("ffn.gate.bias_vl", {experts}, Storage::f32).is_optional = true;  // image tokens only; repacks drop it
  for (int e = 0; e < experts; ++e) add_expert(at, fmt::format("ffn.experts.{}", e), c, Storage::fp4_block32);
  add_expert(at, "ffn.shared_experts", c, Storage::fp8_block32);
}

void add_compressor_and_indexer(Section& at, const ModelConfig& c, const LayerRole& role) {
  if (role.is_kv_source()) {
    at.matrix("attn.compressor.wkv", c.head_dim, c.hidden, Storage::bf16);
    if (role.ratio == 2) at.matrix("attn.compressor.wgate", c.head_dim, c.hidden, Storage::bf16);
    at.plain("attn.compressor.norm.weight", {c.head_dim});
  }
  if (!role.is_index_source()) return;
  at.matrix("attn.indexer.wq_b", std::int64_t{c.index_heads} * c.index_head_dim, c.q_lora_rank, Storage::fp8_block32);
  at.matrix("attn.indexer.weights_proj", c.index_heads, c.hidden, Storage::bf16);
  if (!role.is_kv_source()) return;  // it scores the keys of another layer
  at.matrix("attn.indexer.wk", c.index_head_dim, c.head_dim, Storage::bf16);
  at.plain("attn.indexer.k_norm.weight", {c.index_head_dim});
}

void add_engram(std::vector<ExpectedTensor>& list, const ModelConfig& c) {
  for (std::size_t i = 0; i < c.engram.layers.size(); ++i) {
    const int layer = c.engram.layers[i];
    const std::string prefix = fmt::format("layers.{}.engram.", layer);
    Section(list, prefix, TensorGroup::engram_table, layer).engram_rows("embed", c.engram.rows[i], c.engram.head_dim);
    Section resident(list, prefix, TensorGroup::engram, layer);
    resident.matrix("wkv", std::int64_t{c.hc_mult + 1} * c.hidden, c.engram.row_width(), Storage::fp8_block32);
    resident.plain("q_weight", {c.hc_mult, c.hidden});
    resident.plain("k_weight", {c.hc_mult, c.hidden});
  }
}

void add_draft_network(std::vector<ExpectedTensor>& list, const ModelConfig& c) {
  const auto taps = static_cast<std::int64_t>(c.dspark.target_layers.size());
  for (int stage = 0; stage < c.dspark.stages; ++stage) {
    Section at(list, fmt::format("mtp.{}.", stage), TensorGroup::dspark, stage);
    add_block(at, c, c.dspark.experts);
    if (stage == 0) {
      at.matrix("main_proj", c.hidden, taps * c.hidden, Storage::fp8_block32);
      at.plain("main_norm.weight", {c.hidden});
    }
    if (stage + 1 < c.dspark.stages) continue;
    at.plain("norm.weight", {c.hidden});
    at.table("markov_head.embed", c.vocab_size, c.dspark.markov_rank);
    at.matrix("markov_head.head", c.vocab_size, c.dspark.markov_rank, Storage::bf16);
    at.plain("confidence_head.proj.weight", {1, c.hidden + c.dspark.markov_rank}).is_optional = true;
  }
}

}  // namespace

std::string ExpectedTensor::module_name() const {
  constexpr std::string_view weight = ".weight";
  return std::string_view(name).ends_with(weight) ? name.substr(0, name.size() - weight.size()) : name;
}

std::string ExpectedTensor::scale_name() const {
  return module_name() + ".scale";
}

std::int64_t ExpectedTensor::parameters() const noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::uint64_t StoredTensor::bytes() const noexcept {
  std::uint64_t bytes = element_bytes(dtype);
  for (std::int64_t dim : shape) bytes *= static_cast<std::uint64_t>(dim);
  return bytes;
}

bool has_scales(Storage storage) noexcept {
  return storage == Storage::fp8_block32 || storage == Storage::fp4_block32 || storage == Storage::fp8_rows;
}

StoredTensor stored_values(const ExpectedTensor& tensor, Storage storage) {
  switch (storage) {
    case Storage::bf16:
      return {DType::bf16, tensor.shape};
    case Storage::f32:
      return {DType::f32, tensor.shape};
    case Storage::f16:
      return {DType::f16, tensor.shape};
    case Storage::fp8_block32:
    case Storage::fp8_rows:
      return {DType::f8_e4m3, tensor.shape};
    case Storage::fp4_block32:
      return {DType::i8, {tensor.shape.at(0), tensor.shape.at(1) / 2}};
    case Storage::exl3:
      break;
  }
  return {};
}

StoredTensor stored_scales(const ExpectedTensor& tensor, Storage storage) {
  const std::int64_t n = tensor.shape.at(0);
  const std::int64_t rows = storage == Storage::fp8_block32 ? blocks(n) : n;
  return {DType::f8_e8m0, {rows, blocks(tensor.shape.at(1))}};
}

std::vector<ExpectedTensor> make_inventory(const ModelConfig& config) {
  std::vector<ExpectedTensor> list;
  Section globals(list, "", TensorGroup::global, -1);
  globals.table("embed", config.vocab_size, config.hidden);
  globals.plain("norm.weight", {config.hidden});
  globals.matrix("head", config.vocab_size, config.hidden, Storage::bf16);
  for (const LayerRole& role : config.roles) {
    Section at(list, fmt::format("layers.{}.", role.layer), TensorGroup::layer, role.layer);
    add_block(at, config, config.experts);
    add_compressor_and_indexer(at, config, role);
  }
  add_engram(list, config);
  add_draft_network(list, config);
  return list;
}

bool is_vision_tensor(std::string_view name) noexcept {
  for (std::string_view prefix : {"vision.", "aligner.", "image_start", "image_end", "image_newline"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::uint64_t InventoryTotals::tensors_all() const noexcept {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0});
}

std::uint64_t InventoryTotals::bytes_all() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [dtype, count] : bytes) sum += count;
  return sum;
}

InventoryTotals total(std::span<const ExpectedTensor> inventory) {
  InventoryTotals totals;
  for (const ExpectedTensor& tensor : inventory) {
    const auto group = static_cast<std::size_t>(tensor.group);
    const bool scaled = has_scales(tensor.official);
    totals.tensors[group] += scaled ? 2 : 1;
    totals.parameters[group] += static_cast<std::uint64_t>(tensor.parameters());
    const StoredTensor values = stored_values(tensor, tensor.official);
    totals.bytes[values.dtype] += values.bytes();
    if (scaled) totals.bytes[DType::f8_e8m0] += stored_scales(tensor, tensor.official).bytes();
  }
  return totals;
}

}  // namespace tandem::gpu
