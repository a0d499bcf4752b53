// Names of types are those of torch, as every reader of these files expects.
#include "gpu/exl3/pack_record.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <string_view>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/pack_shard.hpp"

namespace tandem::gpu::exl3 {
namespace {

namespace json = boost::json;

const char* torch_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "torch.float32";
    case DType::bf16:
      return "torch.bfloat16";
    case DType::f16:
      return "torch.float16";
    case DType::i32:
      return "torch.int32";
    case DType::i64:
      return "torch.int64";
    case DType::i16:
      return "torch.int16";
    case DType::u8:
      return "torch.uint8";
    case DType::i8:
      return "torch.int8";
    case DType::f8_e4m3:
      return "torch.float8_e4m3fn";
    case DType::f8_e8m0:
      return "torch.float8_e8m0fnu";
  }
  return "";
}

// "layers.0.attn.wq_a" of its trellis, "norm" of "norm.weight", a name without such an ending itself.
std::string module_of(std::string_view name) {
  for (const std::string_view ending : {".trellis", ".suh", ".svh", ".mcg", ".mul1", ".weight", ".scale", ".bias"}) {
    if (name.ends_with(ending)) return std::string(name.substr(0, name.size() - ending.size()));
  }
  return std::string(name);
}

void add_tensor(json::object& storage, const TensorEntry& entry) {
  json::object& module = storage.emplace(module_of(entry.name), json::object{}).first->value().get_object();
  json::object& stored = module.emplace("stored_tensors", json::object{}).first->value().get_object();
  stored[entry.name] = {
      {"shape", json::value_from(entry.shape)}, {"n_bytes", entry.bytes}, {"dtype", torch_name(entry.dtype)}};
  const std::string_view name = entry.name;
  if (name.ends_with(".trellis")) {
    module["quant_format"] = "exl3";
    module["bits_per_weight"] = entry.shape.back() / tile_side;
  }
  if (name.ends_with(".mul1")) module["mul1_multiplier"] = hash_of(Codebook::mul1).multiplier;
  if (name.ends_with(".mcg")) module["mcg_multiplier"] = hash_of(Codebook::mcg).multiplier;
}

Result<std::int64_t> head_bits(const PackJob& job, const std::vector<std::string>& shards) {
  for (const std::string& shard : shards) {
    const auto file = SafetensorsFile::open(job.options.out / shard);
    if (!file) return file.error();
    if (const TensorEntry* trellis = file->find("head.trellis")) return trellis->shape.back() / tile_side;
  }
  constexpr std::int64_t unpacked = 16;
  return unpacked;
}

}  // namespace

Result<json::object> quantization_config(const PackJob& job, const std::vector<std::string>& shards) {
  const PackOptions& options = job.options;
  std::size_t cols = 0;
  for (const auto& sequence : options.sequences) cols = std::max(cols, sequence.size());
  const auto head = head_bits(job, shards);
  if (!head) return head.error();
  json::object config{{"quant_method", "exl3"}, {"version", "tandem 1"}, {"bits", options.bits}, {"head_bits", *head}};
  if (options.widths.draft > 0) config["mtp_bits"] = options.widths.draft;
  config["calibration"] = {{"rows", options.sequences.size()}, {"cols", cols}};
  config["out_scales"] = "always";
  config["codebook"] = to_string(options.codebook);
  return config;
}

Result<void> write_storage_record(const PackJob& job, const std::vector<std::string>& shards) {
  json::object storage;
  for (const std::string& shard : shards) {
    const auto file = SafetensorsFile::open(job.options.out / shard);
    if (!file) return file.error();
    for (const TensorEntry& entry : file->tensors()) add_tensor(storage, entry);
  }
  auto root = quantization_config(job, shards);
  if (!root) return root.error();
  (*root)["tensor_storage"] = std::move(storage);
  return write_text(job.options.out / "quantization_config.json", json::serialize(*root) + "\n");
}

}  // namespace tandem::gpu::exl3
