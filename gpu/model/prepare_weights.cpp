// The lists of all matrices and of all vectors of the weights.
#include "gpu/model/prepare_weights.hpp"

namespace tandem::gpu {
namespace {

class Visitor {
 public:
  explicit Visitor(const std::function<void(Linear&)>& visit) : visit_(visit) {}

  void linear(Linear& weight) const {
    if (!weight.empty()) visit_(weight);
  }
  void partial(PartialLinear& weight) const {
    for (Linear& slice : weight.slices) linear(slice);
  }
  void expert(ExpertWeights& weights) const {
    linear(weights.w1);
    linear(weights.w3);
    partial(weights.w2);
  }
  void attention(AttentionWeights& weights) const {
    linear(weights.wq_a);
    linear(weights.wq_b);
    linear(weights.wkv);
    for (Linear& group : weights.wo_a) linear(group);
    partial(weights.wo_b);
    linear(weights.compressor.wkv);
    linear(weights.compressor.wgate);
    linear(weights.indexer.wq_b);
    linear(weights.indexer.weights_proj);
    linear(weights.indexer.wk);
  }
  void block(BlockWeights& weights) const {
    attention(weights.attn);
    linear(weights.moe.gate);
    for (ExpertWeights& one : weights.moe.experts) expert(one);
    expert(weights.moe.shared);
    linear(weights.engram.wkv);
  }

 private:
  const std::function<void(Linear&)>& visit_;
};

}  // namespace

void for_each_linear(ModelWeights& weights, const std::function<void(Linear&)>& visit) {
  const Visitor visitor(visit);
  visitor.linear(weights.head);
  for (BlockWeights& layer : weights.layers) visitor.block(layer);
  visitor.linear(weights.dspark.main_proj);
  visitor.linear(weights.dspark.markov_head);
  for (BlockWeights& stage : weights.dspark.stages) visitor.block(stage);
}

namespace {

// Moves the vectors of the weights.
class Placer {
 public:
  explicit Placer(Memory& memory) : memory_(memory) {}

  void dense(DenseF32& values) const { memory_.place(values.values); }
  void linear(Linear& weight) const {
    memory_.place(weight.codes);
    memory_.place(weight.scales);
  }
  void hyper_connection(HyperConnection& weights) const {
    dense(weights.fn);
    dense(weights.base);
    dense(weights.scale);
  }
  void block(BlockWeights& weights) const {
    for (DenseF32* values :
         {&weights.attn_norm, &weights.ffn_norm, &weights.attn.q_norm, &weights.attn.kv_norm, &weights.attn.sink,
          &weights.attn.compressor.norm, &weights.attn.indexer.k_norm, &weights.moe.bias, &weights.moe.bias_vl,
          &weights.engram.q_weight, &weights.engram.k_weight}) {
      dense(*values);
    }
    hyper_connection(weights.hc_attn);
    hyper_connection(weights.hc_ffn);
  }
  void model(ModelWeights& weights) const {
    linear(weights.embed);
    linear(weights.dspark.markov_embed);
    for (DenseF32* values : {&weights.norm, &weights.dspark.main_norm, &weights.dspark.norm}) dense(*values);
    for (BlockWeights& layer : weights.layers) block(layer);
    for (BlockWeights& stage : weights.dspark.stages) block(stage);
  }

 private:
  Memory& memory_;
};

}  // namespace

void prepare_weights(ModelWeights& weights, Ops& ops) {
  const Placer placer(ops.memory());
  for_each_linear(weights, [&](Linear& weight) {
    ops.prepare(weight);
    placer.linear(weight);
  });
  placer.model(weights);
  for (BlockWeights& layer : weights.layers) ops.prepare(layer.moe);
  for (BlockWeights& stage : weights.dspark.stages) ops.prepare(stage.moe);
}

}  // namespace tandem::gpu
