// The walk over all weights, in the order of the forward pass. What is cut how is said here by the name of the loading
// function: `whole` is replicated, `rows` is cut by outputs, `columns` by inputs, `row_groups` by groups of heads.
#include "gpu/checkpoint/loader.hpp"

#include <fmt/format.h>

#include <new>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/checkpoint/matrix_loader.hpp"

namespace tandem::gpu {
namespace {

// Turns bytes done into rare progress calls.
class ProgressMeter {
 public:
  ProgressMeter(const LoadRequest& request, std::uint64_t bytes_all) : request_(request), bytes_all_(bytes_all) {}

  void add(std::uint64_t bytes, const std::string& name) {
    constexpr double step = 0.005;
    done_ += bytes;
    const double fraction = bytes_all_ == 0 ? 1.0 : static_cast<double>(done_) / static_cast<double>(bytes_all_);
    if (!request_.progress || (fraction < told_ + step && done_ < bytes_all_)) return;
    told_ = fraction;
    request_.progress(fraction, name);
  }

 private:
  const LoadRequest& request_;
  std::uint64_t bytes_all_;
  std::uint64_t done_ = 0;
  double told_ = 0;
};

// Bytes of the files that loading will pass over.
std::uint64_t file_bytes(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, bool with_draft) {
  std::uint64_t bytes = 0;
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group == TensorGroup::engram_table || (tensor.group == TensorGroup::dspark && !with_draft)) continue;
    const Result<Storage> storage = find_storage(checkpoint, tensor);
    if (!storage) continue;
    for (const std::string& name : stored_names(checkpoint, tensor, *storage))
      bytes += checkpoint.find(name)->entry->bytes;
  }
  return bytes;
}

void load_hyper_connection(MatrixLoader& load, HyperConnection& into, const std::string& prefix) {
  load.plain(into.fn, prefix + "_fn");
  load.plain(into.base, prefix + "_base");
  load.plain(into.scale, prefix + "_scale");
}

void load_expert(MatrixLoader& load, ExpertWeights& into, const std::string& prefix) {
  load.rows(into.w1, prefix + ".w1");
  load.rows(into.w3, prefix + ".w3");
  load.columns(into.w2, prefix + ".w2");
}

void load_moe(MatrixLoader& load, MoeWeights& into, const std::string& prefix, int experts) {
  load.whole(into.gate, prefix + "gate");
  load.plain(into.bias, prefix + "gate.bias");
  load.plain_optional(into.bias_vl, prefix + "gate.bias_vl");
  into.experts.resize(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts && !load.error(); ++e) {
    load_expert(load, into.experts[static_cast<std::size_t>(e)], fmt::format("{}experts.{}", prefix, e));
  }
  load_expert(load, into.shared, prefix + "shared_experts");
}

void load_attention(MatrixLoader& load, AttentionWeights& into, const std::string& prefix, int groups) {
  load.whole(into.wq_a, prefix + "wq_a");
  load.plain(into.q_norm, prefix + "q_norm.weight");
  load.rows(into.wq_b, prefix + "wq_b");
  load.whole(into.wkv, prefix + "wkv");
  load.plain(into.kv_norm, prefix + "kv_norm.weight");
  load.plain_rows(into.sink, prefix + "attn_sink");
  load.row_groups(into.wo_a, prefix + "wo_a", groups);
  load.columns(into.wo_b, prefix + "wo_b");
}

// What a KV source and an index source have besides attention.
void load_sources(MatrixLoader& load, AttentionWeights& into, const std::string& prefix, const LayerRole& role) {
  if (role.is_kv_source()) {
    load.whole(into.compressor.wkv, prefix + "compressor.wkv");
    if (role.ratio == 2) load.whole(into.compressor.wgate, prefix + "compressor.wgate");
    load.plain(into.compressor.norm, prefix + "compressor.norm.weight");
  }
  if (!role.is_index_source()) return;
  load.whole(into.indexer.wq_b, prefix + "indexer.wq_b");
  load.whole(into.indexer.weights_proj, prefix + "indexer.weights_proj");
  if (!role.is_kv_source()) return;
  load.whole(into.indexer.wk, prefix + "indexer.wk");
  load.plain(into.indexer.k_norm, prefix + "indexer.k_norm.weight");
}

void load_block(MatrixLoader& load, BlockWeights& into, const std::string& prefix, const ModelConfig& config,
                int experts) {
  load.plain(into.attn_norm, prefix + "attn_norm.weight");
  load.plain(into.ffn_norm, prefix + "ffn_norm.weight");
  load_hyper_connection(load, into.hc_attn, prefix + "hc_attn");
  load_hyper_connection(load, into.hc_ffn, prefix + "hc_ffn");
  load_attention(load, into.attn, prefix + "attn.", config.o_groups);
  load_moe(load, into.moe, prefix + "ffn.", experts);
}

void load_layer(MatrixLoader& load, BlockWeights& into, const ModelConfig& config, const LayerRole& role) {
  const std::string prefix = fmt::format("layers.{}.", role.layer);
  if (role.has_engram) {
    load.whole(into.engram.wkv, prefix + "engram.wkv");
    load.plain(into.engram.q_weight, prefix + "engram.q_weight");
    load.plain(into.engram.k_weight, prefix + "engram.k_weight");
  }
  load_block(load, into, prefix, config, config.experts);
  load_sources(load, into.attn, prefix + "attn.", role);
}

void load_draft_network(MatrixLoader& load, DsparkWeights& into, const ModelConfig& config) {
  into.stages.resize(static_cast<std::size_t>(config.dspark.stages));
  for (int stage = 0; stage < config.dspark.stages; ++stage) {
    load_block(load, into.stages[static_cast<std::size_t>(stage)], fmt::format("mtp.{}.", stage), config,
               config.dspark.experts);
  }
  load.whole(into.main_proj, "mtp.0.main_proj");
  load.plain(into.main_norm, "mtp.0.main_norm.weight");
  const std::string last = fmt::format("mtp.{}.", config.dspark.stages - 1);
  load.plain(into.norm, last + "norm.weight");
  load.whole(into.markov_embed, last + "markov_head.embed");
  load.rows(into.markov_head, last + "markov_head.head");
  load.plain_optional(into.confidence, last + "confidence_head.proj.weight");
}

void load_all(MatrixLoader& load, ModelWeights& into, const ModelConfig& config, bool with_draft) {
  load.whole(into.embed, "embed");
  into.layers.resize(static_cast<std::size_t>(config.layers));
  for (const LayerRole& role : config.roles) {
    load_layer(load, into.layers[static_cast<std::size_t>(role.layer)], config, role);
    if (load.error()) return;
  }
  load.plain(into.norm, "norm.weight");
  load.rows(into.head, "head");
  if (with_draft) load_draft_network(load, into.dspark, config);
}

}  // namespace

Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const LoadRequest& request) {
  if (auto divisible = check_ranks(config, request.ranks); !divisible) return divisible.error();
  if (request.rank < 0 || request.rank >= request.ranks) {
    return Error{ErrorCode::invalid_argument, "rank", std::to_string(request.rank),
                 fmt::format("0..{}", request.ranks - 1)};
  }
  const std::vector<ExpectedTensor> inventory = make_inventory(config);
  if (auto complete = check_inventory(checkpoint, config, inventory); !complete) return complete.error();
  const bool with_draft = request.draft && config.dspark.stages > 0;
  ProgressMeter meter(request, file_bytes(checkpoint, inventory, with_draft));
  try {
    MatrixLoader load(checkpoint, inventory, {request.rank, request.ranks},
                      TensorStream(request.piece_bytes, request.stop));
    load.on_bytes([&meter](std::uint64_t bytes, const std::string& name) { meter.add(bytes, name); });
    ModelWeights weights;
    load_all(load, weights, config, with_draft);
    if (load.error()) return *load.error();
    weights.bytes = load.resident_bytes();
    return weights;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::resource, checkpoint.folder().string(), "not enough memory for this rank's weights", ""};
  }
}

Result<ModelWeights> load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                                  const LoadRequest& request) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return checkpoint.error();
  return load_weights(*checkpoint, config, request);
}

}  // namespace tandem::gpu
