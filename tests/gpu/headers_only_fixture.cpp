// Names and shapes come from the inventory and the packing plan; what is stated here is what only the released files
// say: which shard holds what, the bits of every packed matrix, and the vision tower.
#include "tests/gpu/headers_only_fixture.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "gpu/checkpoint/index.hpp"
#include "gpu/checkpoint/inventory.hpp"
#include "gpu/exl3/pack_plan.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

namespace tandem::gpu::test {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

struct HeaderTensor {
  std::string name;
  StoredTensor stored;
};
using Shards = std::map<std::string, std::vector<HeaderTensor>>;  // file name -> tensors

// A safetensors file whose data is a hole.
void write_hollow_shard(const fs::path& path, const std::vector<HeaderTensor>& tensors) {
  std::string header = "{";
  std::uint64_t offset = 0;
  for (const HeaderTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.stored.bytes();
    std::string dims;
    for (const std::int64_t dim : tensor.stored.shape) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", tensor.name, to_string(tensor.stored.dtype), dims, offset, end);
    offset = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string start(reinterpret_cast<const char*>(&length), sizeof(length));
  write_file(path, start + header);
  if (::truncate(path.c_str(), static_cast<off_t>(start.size() + header.size() + offset)) != 0)
    throw std::runtime_error("cannot make a sparse file: " + path.string());
}

void write_indexed(const fs::path& folder, const Shards& shards) {
  std::string map;
  for (const auto& [file, tensors] : shards) {
    write_hollow_shard(folder / file, tensors);
    for (const HeaderTensor& tensor : tensors)
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", tensor.name, file);
  }
  write_file(folder / index_file_name, R"({"metadata":{},"weight_map":{)" + map + "}}");
}

void append_official(std::vector<HeaderTensor>& shard, const ExpectedTensor& tensor) {
  shard.push_back({tensor.name, stored_values(tensor, tensor.official)});
  if (has_scales(tensor.official)) shard.push_back({tensor.scale_name(), stored_scales(tensor, tensor.official)});
}

std::vector<HeaderTensor> vision_tensors() {
  std::vector<HeaderTensor> list;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    list.push_back({std::move(name), {DType::bf16, std::move(shape)}});
  };
  add("vision.patch_embed.proj.weight", {1024, 588});
  add("vision.patch_embed.proj.bias", {1024});
  for (int block = 0; block < 32; ++block) {
    const std::string at = fmt::format("vision.blocks.{}.", block);
    add(at + "norm1.weight", {1024});
    add(at + "norm2.weight", {1024});
    add(at + "attn.wqkv.weight", {3072, 1024});
    add(at + "attn.wqkv.bias", {3072});
    add(at + "attn.wo.weight", {1024, 1024});
    add(at + "attn.wo.bias", {1024});
    add(at + "mlp.w1.weight", {5632, 1024});
    add(at + "mlp.w2.weight", {1024, 2816});
  }
  add("vision.norm.weight", {1024});
  add("aligner.w1.weight", {5120, 9216});
  add("aligner.w1.bias", {5120});
  add("aligner.w2.weight", {5120, 5120});
  add("aligner.w2.bias", {5120});
  for (const char* name : {"image_start", "image_newline", "image_end"}) add(name, {5120});
  return list;
}

std::string official_shard(int number) {
  return fmt::format("model-{:05}-of-00048.safetensors", number);
}

// Vision 1, embedding 2, layers 3 to 42, head and last norm 43, draft stages 44 to 46, Engram 47 and 48.
int official_shard_of(const ExpectedTensor& tensor, const ModelConfig& config) {
  switch (tensor.group) {
    case TensorGroup::global:
      return tensor.use == TensorUse::row_table ? 2 : 43;
    case TensorGroup::layer:
      return 3 + tensor.layer;
    case TensorGroup::dspark:
      return 44 + tensor.layer;
    case TensorGroup::engram:
    case TensorGroup::engram_table:
      break;
  }
  return tensor.layer == config.engram.layers.front() ? 47 : 48;
}

bool is_backbone_expert(const ExpectedTensor& tensor) {
  return tensor.group == TensorGroup::layer && tensor.name.find(".ffn.experts.") != std::string::npos;
}

Shards official_shards(const std::vector<ExpectedTensor>& inventory, const ModelConfig& config) {
  Shards shards;
  shards[official_shard(1)] = vision_tensors();
  for (const ExpectedTensor& tensor : inventory)
    append_official(shards[official_shard(official_shard_of(tensor, config))], tensor);
  return shards;
}

void append_packed(std::vector<HeaderTensor>& shard, const exl3::PackMatrix& matrix, int bits) {
  shard.push_back({matrix.module + ".trellis", {DType::i16, {matrix.k / 16, matrix.n / 16, 16 * bits}}});
  shard.push_back({matrix.module + ".suh", {DType::f16, {matrix.k}}});
  shard.push_back({matrix.module + ".svh", {DType::f16, {matrix.n}}});
  shard.push_back({matrix.module + ".mul1", {DType::i32, {}}});
}

int layer_of(std::string_view module) {
  return module.starts_with("layers.") ? std::stoi(std::string(module.substr(7))) : -1;
}

// The published widths of the 2.9-bit pack.
int released_bits(const std::string& module) {
  const int layer = layer_of(module);
  if (module == "head") return 6;
  if (layer < 0) return 4;  // the draft network
  if (module.find(".ffn.experts.") != std::string::npos) return layer >= 18 && layer <= 22 ? 2 : 3;
  if (module.find(".shared_experts.") != std::string::npos) return layer >= 11 && layer <= 29 ? 4 : 5;
  if (module.ends_with(".indexer.wk")) return 8;
  if (module.ends_with(".engram.wkv")) return layer == 1 ? 5 : 4;
  return 5;
}

// Native tensors of the pack: FP16 where the official file has BF16; image biases are left out.
void append_native(std::vector<HeaderTensor>& shard, const ExpectedTensor& tensor) {
  if (tensor.name.ends_with(".bias_vl")) return;
  const bool is_half = tensor.official == Storage::bf16 || tensor.official == Storage::f16;
  shard.push_back({tensor.name, stored_values(tensor, is_half ? Storage::f16 : Storage::f32)});
}

Shards exl3_shards(const std::vector<ExpectedTensor>& inventory) {
  constexpr std::uint64_t shard_bytes = std::uint64_t{5'200} << 20;  // 39 shards
  const exl3::PackPlan plan = exl3::make_pack_plan(inventory, exl3::PackLayout::whole, {});
  std::set<std::string> packed;
  for (const exl3::PackMatrix& matrix : plan.matrices) packed.insert(matrix.source);
  std::vector<HeaderTensor> all = vision_tensors();
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group != TensorGroup::engram_table && !packed.contains(tensor.module_name())) append_native(all, tensor);
  }
  for (const exl3::PackMatrix& matrix : plan.matrices) append_packed(all, matrix, released_bits(matrix.module));
  Shards shards;
  std::uint64_t bytes = 0;
  for (HeaderTensor& tensor : all) {
    bytes += tensor.stored.bytes();
    shards[fmt::format("exl3-{:05}.safetensors", 1 + bytes / shard_bytes)].push_back(std::move(tensor));
  }
  return shards;
}

// The tables of the pack's base: shards 47 and 48 of the official files.
void write_tables(const fs::path& folder, const std::vector<ExpectedTensor>& inventory, const ModelConfig& config) {
  Shards shards;
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group == TensorGroup::engram_table)
      append_official(shards[official_shard(official_shard_of(tensor, config))], tensor);
  }
  write_indexed(folder, shards);
}

void write_exl3(const fs::path& folder, const std::vector<ExpectedTensor>& inventory, const ModelConfig& config) {
  const fs::path pack = folder / "pack", base = folder / "official";
  fs::create_directories(pack);
  fs::create_directories(base);
  write_tables(base, inventory, config);
  write_indexed(pack, exl3_shards(inventory));
  write_file(pack / "overlay.json", R"({"base": "../official"})");
  json::object root = json::parse(read_file(released_config_file())).as_object();
  root["quantization_config"] =
      json::object{{"quant_method", "exl3"}, {"bits", 2.9}, {"head_bits", 6}, {"codebook", "mul1"}};
  write_file(pack / "config.json", json::serialize(root));
}

// Of 384 experts 126 with 2 bits, 239 with 3 and 19 with 5: 2.771 on average, in another order in every layer.
int bank_bits(int layer, int expert) {
  const int place = (expert * 5 + layer * 7) % 384;
  return place < 126 ? 2 : place < 126 + 239 ? 3 : 5;
}

const char* bank_of(int bits) {
  return bits == 2 ? "q31s" : bits == 3 ? "q31" : "qn";
}

int expert_of(std::string_view module) {
  constexpr std::string_view mark = ".experts.";
  return std::stoi(std::string(module.substr(module.find(mark) + mark.size())));
}

// Every expert is in the bank of its width; one in 16 also in another, so that the plan's choice matters.
void write_banks(const fs::path& folder, const std::vector<ExpectedTensor>& inventory) {
  std::map<std::string, std::vector<HeaderTensor>> banks;
  json::object allocation;
  for (const exl3::PackMatrix& matrix : exl3::make_pack_plan(inventory, exl3::PackLayout::experts, {}).matrices) {
    const int layer = layer_of(matrix.module), expert = expert_of(matrix.module), bits = bank_bits(layer, expert);
    append_packed(banks[bank_of(bits)], matrix, bits);
    if (expert % 16 == 0) append_packed(banks[bits == 3 ? "qn" : "q31"], matrix, bits == 3 ? 5 : 3);
    allocation[matrix.module.substr(0, matrix.module.rfind('.'))] = bank_of(bits);
  }
  for (const auto& [name, tensors] : banks) {
    fs::create_directories(folder / "exl3" / name);
    write_hollow_shard(folder / "exl3" / name / "experts.safetensors", tensors);
  }
  fs::create_directories(folder / "exl3" / "plan");
  write_file(folder / "exl3" / "plan" / "J268-ho-v31-K5n.json",
             json::serialize(json::object{{"allocation", std::move(allocation)}}));
}

// Six native shards: the tables apart, everything else but the experts in four.
void write_exl3_experts(const fs::path& folder, const std::vector<ExpectedTensor>& inventory,
                        const ModelConfig& config) {
  Shards shards;
  shards["native-1.safetensors"] = vision_tensors();
  for (const ExpectedTensor& tensor : inventory) {
    if (is_backbone_expert(tensor)) continue;
    const int official = official_shard_of(tensor, config);
    const int shard = official >= 47 ? official - 42 : official >= 44 ? 4 : official >= 23 ? 3 : official >= 3 ? 2 : 1;
    append_official(shards[fmt::format("native-{}.safetensors", shard)], tensor);
  }
  write_indexed(folder, shards);
  write_banks(folder, inventory);
  fs::copy_file(released_config_file(), folder / "config.json");
}

}  // namespace

HeadersOnlyFolder::HeadersOnlyFolder(ReleasedLayout layout) {
  std::string name = (fs::temp_directory_path() / "tandem-headers-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  folder_ = name;
  model_ = folder_;
  const auto config = ModelConfig::parse(read_file(released_config_file()), "released");
  if (!config) throw std::runtime_error(config.error().message());
  const std::vector<ExpectedTensor> inventory = make_inventory(*config);
  switch (layout) {
    case ReleasedLayout::official:
      write_indexed(model_, official_shards(inventory, *config));
      fs::copy_file(released_config_file(), model_ / "config.json");
      break;
    case ReleasedLayout::exl3:
      model_ = folder_ / "pack";
      write_exl3(folder_, inventory, *config);
      break;
    case ReleasedLayout::exl3_experts:
      write_exl3_experts(model_, inventory, *config);
      break;
  }
}

HeadersOnlyFolder::~HeadersOnlyFolder() {
  std::error_code ec;
  fs::remove_all(folder_, ec);
}

std::uint64_t HeadersOnlyFolder::disk_bytes() const {
  std::uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
    struct stat status {};
    if (entry.is_regular_file() && ::stat(entry.path().c_str(), &status) == 0)
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

const HeadersOnlyFolder& released_checkpoint(ReleasedLayout layout) {
  static std::map<ReleasedLayout, HeadersOnlyFolder> folders;
  return folders.try_emplace(layout, layout).first->second;
}

}  // namespace tandem::gpu::test
