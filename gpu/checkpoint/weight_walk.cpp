// The one list of who is cut how; see the header for the words.
#include "gpu/checkpoint/weight_walk.hpp"

#include <fmt/format.h>

namespace tandem::gpu {
namespace {

void walk_hyper_connection(WeightSlicer& slicer, HyperConnection& into, const std::string& prefix) {
  slicer.plain(into.fn, prefix + "_fn");
  slicer.plain(into.base, prefix + "_base");
  slicer.plain(into.scale, prefix + "_scale");
}

void walk_expert(WeightSlicer& slicer, ExpertWeights& into, const std::string& prefix) {
  slicer.rows(into.w1, prefix + ".w1");
  slicer.rows(into.w3, prefix + ".w3");
  slicer.columns(into.w2, prefix + ".w2");
}

void walk_moe(WeightSlicer& slicer, MoeWeights& into, const std::string& prefix, int experts) {
  slicer.whole(into.gate, prefix + "gate");
  slicer.plain(into.bias, prefix + "gate.bias");
  slicer.plain_optional(into.bias_vl, prefix + "gate.bias_vl");
  into.experts.resize(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts && !slicer.error(); ++e) {
    walk_expert(slicer, into.experts[static_cast<std::size_t>(e)], fmt::format("{}experts.{}", prefix, e));
  }
  walk_expert(slicer, into.shared, prefix + "shared_experts");
}

void walk_attention(WeightSlicer& slicer, AttentionWeights& into, const std::string& prefix, int groups) {
  slicer.whole(into.wq_a, prefix + "wq_a");
  slicer.plain(into.q_norm, prefix + "q_norm.weight");
  slicer.rows(into.wq_b, prefix + "wq_b");
  slicer.whole(into.wkv, prefix + "wkv");
  slicer.plain(into.kv_norm, prefix + "kv_norm.weight");
  slicer.plain_rows(into.sink, prefix + "attn_sink");
  slicer.row_groups(into.wo_a, prefix + "wo_a", groups);
  slicer.columns(into.wo_b, prefix + "wo_b");
}

// What a KV source and an index source have besides attention.
void walk_sources(WeightSlicer& slicer, AttentionWeights& into, const std::string& prefix, const LayerRole& role) {
  if (role.is_kv_source()) {
    slicer.whole(into.compressor.wkv, prefix + "compressor.wkv");
    if (role.ratio == 2) slicer.whole(into.compressor.wgate, prefix + "compressor.wgate");
    slicer.plain(into.compressor.norm, prefix + "compressor.norm.weight");
  }
  if (!role.is_index_source()) return;
  slicer.whole(into.indexer.wq_b, prefix + "indexer.wq_b");
  slicer.whole(into.indexer.weights_proj, prefix + "indexer.weights_proj");
  if (!role.is_kv_source()) return;
  slicer.whole(into.indexer.wk, prefix + "indexer.wk");
  slicer.plain(into.indexer.k_norm, prefix + "indexer.k_norm.weight");
}

void walk_block(WeightSlicer& slicer, BlockWeights& into, const std::string& prefix, const ModelConfig& config,
                int experts) {
  slicer.plain(into.attn_norm, prefix + "attn_norm.weight");
  slicer.plain(into.ffn_norm, prefix + "ffn_norm.weight");
  walk_hyper_connection(slicer, into.hc_attn, prefix + "hc_attn");
  walk_hyper_connection(slicer, into.hc_ffn, prefix + "hc_ffn");
  walk_attention(slicer, into.attn, prefix + "attn.", config.o_groups);
  walk_moe(slicer, into.moe, prefix + "ffn.", experts);
}

void walk_layer(WeightSlicer& slicer, BlockWeights& into, const ModelConfig& config, const LayerRole& role) {
  const std::string prefix = fmt::format("layers.{}.", role.layer);
  if (role.has_engram) {
    slicer.whole(into.engram.wkv, prefix + "engram.wkv");
    slicer.plain(into.engram.q_weight, prefix + "engram.q_weight");
    slicer.plain(into.engram.k_weight, prefix + "engram.k_weight");
  }
  walk_block(slicer, into, prefix, config, config.experts);
  walk_sources(slicer, into.attn, prefix + "attn.", role);
}

void walk_draft_network(WeightSlicer& slicer, DsparkWeights& into, const ModelConfig& config) {
  into.stages.resize(static_cast<std::size_t>(config.dspark.stages));
  for (int stage = 0; stage < config.dspark.stages; ++stage) {
    walk_block(slicer, into.stages[static_cast<std::size_t>(stage)], fmt::format("mtp.{}.", stage), config,
               config.dspark.experts);
  }
  slicer.whole(into.main_proj, "mtp.0.main_proj");
  slicer.plain(into.main_norm, "mtp.0.main_norm.weight");
  const std::string last = fmt::format("mtp.{}.", config.dspark.stages - 1);
  slicer.plain(into.norm, last + "norm.weight");
  slicer.whole(into.markov_embed, last + "markov_head.embed");
  slicer.rows(into.markov_head, last + "markov_head.head");
  slicer.plain_on_host(into.confidence, last + "confidence_head.proj.weight");
}

}  // namespace

void walk_weights(WeightSlicer& slicer, ModelWeights& into, const ModelConfig& config, bool with_draft) {
  slicer.whole(into.embed, "embed");
  into.layers.resize(static_cast<std::size_t>(config.layers));
  for (const LayerRole& role : config.roles) {
    walk_layer(slicer, into.layers[static_cast<std::size_t>(role.layer)], config, role);
    if (slicer.error()) return;
  }
  slicer.plain(into.norm, "norm.weight");
  slicer.rows(into.head, "head");
  if (with_draft) walk_draft_network(slicer, into.dspark, config);
}

}  // namespace tandem::gpu
