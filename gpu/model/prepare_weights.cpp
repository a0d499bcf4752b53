// The list of all matrices, and what a backend makes of each weight.
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

void BackendPlacer::place_matrix(Linear& weight) {
  ops_.prepare(weight);
  place_table(weight);
}

void BackendPlacer::place_table(Linear& table) {
  ops_.memory().place(table.codes);
  ops_.memory().place(table.scales);
}

void BackendPlacer::place_vector(DenseF32& values) {
  ops_.memory().place(values.values);
}

void prepare_experts(ModelWeights& weights, Ops& ops) {
  for (BlockWeights& layer : weights.layers) ops.prepare(layer.moe);
  for (BlockWeights& stage : weights.dspark.stages) ops.prepare(stage.moe);
}

}  // namespace tandem::gpu
