// Builds the fixture's tensors from the inventory with seeded values that contain no NaN.
#include "tests/gpu/checkpoint_fixture.hpp"

#include <stdlib.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>

#include "gpu/checkpoint/index.hpp"
#include "gpu/checkpoint/inventory.hpp"
#include "gpu/checkpoint/safetensors_writer.hpp"
#include "tests/build_paths.hpp"

namespace tandem::gpu::test {
namespace {

namespace json = boost::json;

constexpr const char* small_config_text = R"({
  "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16",
  "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "image_token_id": 62,
  "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
                          "scale_fmt": "ue8m0", "expert_dtype": "fp4"},
  "text_config": {
    "model_type": "deepseek_v41_text", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 5,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "qk_rope_head_dim": 16, "q_lora_rank": 32,
    "o_lora_rank": 32, "o_groups": 4, "moe_intermediate_size": 128, "n_routed_experts": 2, "n_shared_experts": 1,
    "num_experts_per_tok": 1, "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "norm_topk_prob": true,
    "routed_scaling_factor": 1.5, "swiglu_limit": 10.0, "hidden_act": "silu", "rms_norm_eps": 1e-20,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "sliding_window": 8,
    "compress_ratios": [0, 2, 2, 1, 1, 0], "kv_source_layer_ids": [1, 3], "index_source_layer_ids": [1, 3, 4],
    "candidate_source_layer_id": 3, "candidate_topk_blocks": 4, "candidate_block_size": 4,
    "index_n_heads": 2, "index_head_dim": 32, "index_topk": 8, "rope_theta": 10000.0, "compress_rope_theta": 160000.0,
    "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 65536},
    "max_position_embeddings": 4096, "tie_word_embeddings": false,
    "engram_layer_ids": [1], "engram_num_embeddings": [36], "engram_max_ngram_size": 2, "engram_n_heads": 2,
    "engram_head_dim": 32, "engram_vocab_size": 16, "engram_compressed_vocab_size": 40, "engram_pad_token_id": 2,
    "num_nextn_predict_layers": 1, "dspark_block_size": 5, "dspark_noise_token_id": 63,
    "dspark_target_layer_ids": [3, 4], "dspark_markov_rank": 32, "dspark_n_routed_experts": 2,
    "dspark_num_experts_per_tok": 1
  }
})";

// Any finite value of the type, from 32 random bits.
void append_value(std::vector<std::byte>& out, DType dtype, std::uint32_t random) {
  std::uint32_t bits = random;
  if (dtype == DType::f32) bits = 0x3C000000U | (random & 0x83FFFFFFU);
  if (dtype == DType::bf16) bits = 0x3C00U | (random & 0x83FFU);
  if (dtype == DType::f8_e4m3 && (bits & 0x7FU) == 0x7FU) bits ^= 1U;
  if (dtype == DType::f8_e8m0) bits = 120U + random % 16U;
  for (std::size_t i = 0; i < element_bytes(dtype); ++i) out.push_back(static_cast<std::byte>(bits >> (8 * i)));
}

Stored random_tensor(const StoredTensor& stored, std::mt19937& random) {
  Stored tensor{stored.dtype, stored.shape, {}};
  while (tensor.bytes.size() < stored.bytes()) append_value(tensor.bytes, stored.dtype, random());
  return tensor;
}

std::vector<TensorData> views(const std::map<std::string, Stored>& tensors, int shard) {
  std::vector<TensorData> list;
  for (const auto& [name, tensor] : tensors) {
    const bool in_second = name.starts_with("mtp.") || name.find(".engram.") != std::string::npos;
    if (shard == 0 || (shard == 2) == in_second) list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  return list;
}

void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message());
}

}  // namespace

json::object small_config() {
  return json::parse(small_config_text).as_object();
}

std::filesystem::path released_config_file() {
  return source_folder() / "tests/gpu/checkpoint_data/deepseek_v41_flash_config.json";
}

std::filesystem::path golden_checkpoint() {
  return golden_model_folder() / "ckpt";
}

CheckpointFolder::CheckpointFolder() : config(small_config()) {
  std::string name = (std::filesystem::temp_directory_path() / "tandem-checkpoint-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
  const auto parsed = ModelConfig::parse(json::serialize(config), "small");
  if (!parsed) throw std::runtime_error(parsed.error().message());
  std::mt19937 random(7);
  for (const ExpectedTensor& tensor : make_inventory(*parsed)) {
    tensors[tensor.name] = random_tensor(stored_values(tensor, tensor.official), random);
    if (has_scales(tensor.official))
      tensors[tensor.scale_name()] = random_tensor(stored_scales(tensor, tensor.official), random);
  }
  for (std::int32_t token = 0; token < parsed->vocab_size; ++token) {
    token_map.push_back(token % static_cast<std::int32_t>(parsed->engram.compressed_vocab_size));
  }
}

CheckpointFolder::~CheckpointFolder() {
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
}

std::filesystem::path CheckpointFolder::shard(int number) const {
  return path_ / ("model-0000" + std::to_string(number) + "-of-00002.safetensors");
}

std::filesystem::path CheckpointFolder::index() const {
  return path_ / index_file_name;
}

void CheckpointFolder::write() const {
  write_file(path_ / "config.json", json::serialize(config));
  write_file(path_ / "engram_token_map.i32",
             {reinterpret_cast<const char*>(token_map.data()), token_map.size() * sizeof(std::int32_t)});
  json::object map;
  for (int number : {1, 2}) {
    const std::vector<TensorData> list = views(tensors, number);
    must(write_safetensors(shard(number), list, {{"format", "pt"}}));
    for (const TensorData& tensor : list) map[tensor.name] = shard(number).filename().string();
  }
  write_file(index(), json::serialize(json::object{{"metadata", json::object{}}, {"weight_map", map}}));
}

void CheckpointFolder::write_single_file() const {
  write_file(path_ / "config.json", json::serialize(config));
  must(write_safetensors(path_ / single_file_name, views(tensors, 0)));
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw std::runtime_error("cannot write a fixture");
}

void edit_file(const std::filesystem::path& path, std::string_view from, std::string_view to) {
  std::string text = read_file(path);
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to edit: " + std::string(from));
  write_file(path, text.replace(at, from.size(), to));
}

void edit_header(const std::filesystem::path& shard, std::string_view from, std::string_view to) {
  const std::string file = read_file(shard);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  std::string header = file.substr(sizeof(length), length);
  const std::size_t at = header.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to edit: " + std::string(from));
  header.replace(at, from.size(), to);
  const std::uint64_t edited = header.size();
  std::string bytes(reinterpret_cast<const char*>(&edited), sizeof(edited));
  write_file(shard, bytes + header + file.substr(sizeof(length) + length));
}

OpenSource FailingReads::opener() {
  class Source final : public ByteSource {
   public:
    Source(std::unique_ptr<ByteSource> inner, FailingReads& plan, std::string path)
        : inner_(std::move(inner)), plan_(plan), path_(std::move(path)) {}
    std::uint64_t size() const noexcept override { return inner_->size(); }
    Result<void> read(std::uint64_t offset, std::span<std::byte> into) override {
      if (plan_.reads++ == plan_.fail_at) return Error{ErrorCode::io, path_, "injected fault", "a readable disk"};
      return inner_->read(offset, into);
    }

   private:
    std::unique_ptr<ByteSource> inner_;
    FailingReads& plan_;
    std::string path_;
  };
  return [this](const std::filesystem::path& path) -> Result<std::unique_ptr<ByteSource>> {
    auto inner = open_file(path);
    if (!inner) return inner.error();
    return std::unique_ptr<ByteSource>(std::make_unique<Source>(std::move(*inner), *this, path.string()));
  };
}

}  // namespace tandem::gpu::test
