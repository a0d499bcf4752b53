// Random bytes are drawn once into a pattern and copied from there, piece by piece from random places: filling 100 GB
// on a device takes as long as writing them there.
#include "gpu/model/random_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/model/prepare_weights.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

constexpr std::int64_t pattern_words = std::int64_t{1} << 22;  // 16 MiB
constexpr std::int64_t piece_words = 1024;

// Returns `wanted` random 4-byte words from `draw`, which returns one.
template <class Draw>
std::vector<std::uint32_t> draw_words(std::int64_t wanted, const Draw& draw) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(wanted));
  for (std::uint32_t& word : words) word = draw();
  return words;
}

std::uint32_t two_of(std::uint16_t a, std::uint16_t b) {
  return a | static_cast<std::uint32_t>(b) << 16;
}

// Makes matrices and vectors in the memory of a backend.
class WeightMaker {
 public:
  WeightMaker(Ops& ops, std::uint64_t seed) : ops_(ops), engine_(seed) {
    bits_ = pattern([this] { return static_cast<std::uint32_t>(engine_()); });
  }

  // W with entries of the spread gain / sqrt(k).
  Linear packed(std::int64_t n, std::int64_t k, int bits, double gain = 1) {
    Linear weight;
    weight.format = WeightFormat::exl3;
    weight.n = n;
    weight.k = k;
    weight.exl3.bits = static_cast<std::uint8_t>(bits);
    const std::int64_t inputs = exl3::padded_side(k), outputs = exl3::padded_side(n);
    weight.codes = filled(bits_, inputs * outputs * bits / 32);
    const auto spread = static_cast<float>(gain / std::sqrt(static_cast<double>(k)));
    weight.scales = ops_.memory().allocate(static_cast<std::size_t>(inputs + outputs) * 2);
    fill(signs_of(1), weight.scales.data.get(), inputs / 2);
    fill(signs_of(spread), weight.scales.data.get() + inputs * 2, outputs / 2);
    bytes_ += weight.codes.bytes + weight.scales.bytes;
    return weight;
  }

  Linear plain(std::int64_t n, std::int64_t k, double gain = 1) {
    Linear weight;
    weight.format = WeightFormat::bf16;
    weight.n = n;
    weight.k = k;
    weight.codes = filled(numbers_of(gain / std::sqrt(static_cast<double>(k))), (n * k + 1) / 2);
    bytes_ += weight.codes.bytes;
    return weight;
  }

  // Normal numbers around `middle`.
  DenseF32 dense(std::int64_t rows, std::int64_t cols, float middle, float spread) {
    std::normal_distribution<float> normal(middle, spread);
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (float& value : values) value = normal(engine_);
    DenseF32 made{ops_.memory().allocate(values.size() * sizeof(float)), rows, cols};
    ops_.memory().upload(std::as_bytes(std::span(values)), made.values.data.get());
    bytes_ += made.values.bytes;
    return made;
  }

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  template <class Draw>
  Buffer pattern(const Draw& draw) {
    const auto words = draw_words(pattern_words, draw);
    Buffer made = ops_.memory().allocate(words.size() * sizeof(std::uint32_t));
    ops_.memory().upload(std::as_bytes(std::span(words)), made.data.get());
    return made;
  }
  // FP16 +-size.
  const Buffer& signs_of(float size) {
    Buffer& made = signs_[size];
    if (made.bytes == 0) {
      const std::uint16_t value = float_to_f16(size);
      const auto one = [&] { return static_cast<std::uint16_t>(value | (engine_() & 1U) << 15); };
      made = pattern([&] { return two_of(one(), one()); });
    }
    return made;
  }
  // BF16 normal numbers.
  const Buffer& numbers_of(double spread) {
    Buffer& made = numbers_[spread];
    if (made.bytes == 0) {
      std::normal_distribution<float> normal(0.0F, static_cast<float>(spread));
      made = pattern([&] { return two_of(float_to_bf16(normal(engine_)), float_to_bf16(normal(engine_))); });
    }
    return made;
  }

  Buffer filled(const Buffer& from, std::int64_t words) {
    Buffer made = ops_.memory().allocate(static_cast<std::size_t>(words) * sizeof(std::uint32_t));
    if (made.bytes != 0) fill(from, made.data.get(), words);
    return made;
  }
  // Copies `words` words of a pattern; the operation moves 4-byte values and looks at none.
  void fill(const Buffer& from, std::byte* to, std::int64_t words) {
    std::vector<RowMove> moves;
    const auto source = [&](std::int64_t count) {
      return from.as<const float>() + engine_() % static_cast<std::uint64_t>((pattern_words - count) / 4) * 4;
    };
    auto* place = reinterpret_cast<float*>(to);
    for (std::int64_t done = 0; done + piece_words <= words; done += piece_words) {
      moves.push_back({source(piece_words), place + done});
    }
    ops_.move_rows(moves, piece_words);
    const std::int64_t rest = words % piece_words;
    const RowMove last{source(rest + 1), place + words - rest};
    if (rest > 0) ops_.move_rows({&last, 1}, rest);
  }

  Ops& ops_;
  std::mt19937_64 engine_;
  Buffer bits_;
  std::map<float, Buffer> signs_;
  std::map<double, Buffer> numbers_;
  std::size_t bytes_ = 0;
};

// Bits of the matrices of one block.
struct BlockBits {
  int attention = 5, shared = 5, routed = 3;
};

BlockBits bits_of(int layer) {
  BlockBits bits;
  if (layer >= 11 && layer < 30) bits.shared = 4;
  if (layer >= 18 && layer < 23) bits.routed = 2;
  return bits;
}
constexpr int index_key_bits = 8, head_bits = 6, draft_bits = 4;

class ModelMaker {
 public:
  ModelMaker(WeightMaker& make, const ModelConfig& config, int ranks) : make_(make), config_(config), ranks_(ranks) {}

  ModelWeights weights(bool draft) {
    ModelWeights made;
    made.embed = make_.plain(config_.vocab_size, config_.hidden, std::sqrt(static_cast<double>(config_.hidden)));
    for (const LayerRole& role : config_.roles) {
      const BlockBits bits = bits_of(role.layer);
      made.layers.push_back(block(bits, config_.experts));
      add_sources(made.layers.back().attn, role, bits);
    }
    made.norm = ones(config_.hidden);
    made.head = make_.packed(config_.vocab_size / ranks_, config_.hidden, head_bits);
    if (draft && config_.dspark.stages > 0) made.dspark = draft_network();
    made.bytes = make_.bytes();
    return made;
  }

 private:
  DenseF32 ones(std::int64_t count) { return make_.dense(1, count, 1.0F, 0.1F); }

  HyperConnection hyper_connection() {
    const int width = config_.mix_width();
    return {make_.dense(width, config_.streams_width(), 0.0F, 0.02F), make_.dense(1, width, 0.0F, 1.0F),
            make_.dense(1, 3, 1.0F, 0.0F)};
  }

  // A matrix cut along its inputs: two halves on one rank, one on each of two.
  PartialLinear cut(std::int64_t n, std::int64_t k, int bits, double gain) {
    PartialLinear made;
    const std::int64_t slices = ranks_ == 1 ? 2 : 1;
    made.n = n;
    made.k_local = k / ranks_;
    for (std::int64_t s = 0; s < slices; ++s) made.slices.push_back(make_.packed(n, made.k_local / slices, bits, gain));
    return made;
  }

  ExpertWeights expert(int bits) {
    const std::int64_t inter = config_.moe_intermediate / ranks_;
    ExpertWeights made;
    made.w1 = make_.packed(inter, config_.hidden, bits);
    made.w3 = make_.packed(inter, config_.hidden, bits);
    made.w2 = cut(config_.hidden, config_.moe_intermediate, bits, 0.5);
    return made;
  }

  BlockWeights block(const BlockBits& bits, int experts) {
    BlockWeights made;
    made.attn_norm = ones(config_.hidden);
    made.ffn_norm = ones(config_.hidden);
    made.hc_attn = hyper_connection();
    made.hc_ffn = hyper_connection();
    AttentionWeights& attn = made.attn;
    attn.wq_a = make_.packed(config_.q_lora_rank, config_.hidden, bits.attention);
    attn.q_norm = ones(config_.q_lora_rank);
    attn.wq_b = make_.packed(config_.q_width() / ranks_, config_.q_lora_rank, bits.attention);
    attn.wkv = make_.packed(config_.head_dim, config_.hidden, bits.attention);
    attn.kv_norm = ones(config_.head_dim);
    attn.sink = make_.dense(1, config_.heads / ranks_, 0.0F, 1.0F);
    for (int group = 0; group < config_.o_groups / ranks_; ++group) {
      attn.wo_a.push_back(make_.packed(config_.o_lora_rank, config_.group_width(), bits.attention));
    }
    attn.wo_b = cut(config_.hidden, std::int64_t{config_.o_groups} * config_.o_lora_rank, bits.attention, 0.5);
    made.moe.gate = make_.plain(experts, config_.hidden);
    made.moe.bias = make_.dense(1, experts, 0.0F, 0.1F);
    for (int e = 0; e < experts; ++e) made.moe.experts.push_back(expert(bits.routed));
    made.moe.shared = expert(bits.shared);
    return made;
  }

  void add_sources(AttentionWeights& attn, const LayerRole& role, const BlockBits& bits) {
    if (role.is_kv_source()) {
      attn.compressor.wkv = make_.packed(config_.head_dim, config_.hidden, bits.attention);
      if (role.ratio == 2) attn.compressor.wgate = make_.packed(config_.head_dim, config_.hidden, bits.attention);
      attn.compressor.norm = ones(config_.head_dim);
      attn.indexer.wk = make_.packed(config_.index_head_dim, config_.head_dim, index_key_bits);
      attn.indexer.k_norm = ones(config_.index_head_dim);
    }
    if (!role.is_index_source()) return;
    const std::int64_t width = std::int64_t{config_.index_heads} * config_.index_head_dim;
    attn.indexer.wq_b = make_.packed(width, config_.q_lora_rank, bits.attention);
    attn.indexer.weights_proj = make_.plain(config_.index_heads, config_.hidden);
  }

  DsparkWeights draft_network() {
    DsparkWeights made;
    const DsparkConfig& dspark = config_.dspark;
    const auto taps = static_cast<std::int64_t>(dspark.target_layers.size());
    made.main_proj = make_.packed(config_.hidden, taps * config_.hidden, draft_bits);
    made.main_norm = ones(config_.hidden);
    for (int stage = 0; stage < dspark.stages; ++stage) {
      made.stages.push_back(block({draft_bits, draft_bits, draft_bits}, dspark.experts));
    }
    made.norm = ones(config_.hidden);
    made.markov_embed = make_.plain(config_.vocab_size, dspark.markov_rank, std::sqrt(double(dspark.markov_rank)));
    made.markov_head = make_.plain(config_.vocab_size / ranks_, dspark.markov_rank);
    return made;
  }

  WeightMaker& make_;
  const ModelConfig& config_;
  int ranks_;
};

Result<void> check_sides(const ModelConfig& config, int ranks) {
  for (const std::int64_t side :
       {config.hidden, config.q_lora_rank, config.o_lora_rank, config.head_dim, config.moe_intermediate / ranks / 2,
        config.index_head_dim, config.vocab_size / ranks}) {
    if (side % 2 == 0) continue;
    return Error{ErrorCode::invalid_argument, "random model", "a side of " + std::to_string(side), "even sides"};
  }
  return check_ranks(config, ranks);
}

ModelConfig without_engram(ModelConfig config) {
  config.engram.layers.clear();
  config.engram.rows.clear();
  for (LayerRole& role : config.roles) role.has_engram = false;
  config.low_precision_weights = false;
  return config;
}

}  // namespace

Result<std::unique_ptr<Model>> make_random_model(const RandomModelOptions& options, Communicator& communicator) {
  auto model = std::make_unique<Model>();
  model->config = without_engram(options.config);
  if (auto ok = check_sides(model->config, options.ranks); !ok) return ok.error();
  model->communicator = &communicator;
  model->max_positions = options.max_positions > 0 ? options.max_positions : model->config.max_positions;
  const auto numerics = parse_numerics("serve", false);
  if (!numerics) return numerics.error();
  model->numerics = *numerics;
  auto ops = make_ops({options.backend, options.threads, model->numerics.order});
  if (!ops) return ops.error();
  model->ops = std::move(*ops);
  WeightMaker make(*model->ops, options.seed);
  model->weights = ModelMaker(make, model->config, options.ranks).weights(options.draft);
  if (model->weights.dspark.stages.empty()) {
    model->config.dspark = {};
    model->config.dspark.block_size = 0;
  }
  prepare_experts(model->weights, *model->ops);
  const std::int64_t positions = model->max_positions + model->config.dspark.block_size;
  const ModelConfig& config = model->config;
  model->rope_plain = std::make_unique<RopeTable>(config.rope, config.rope_dim, RopeKind::plain, positions);
  model->rope_compressed = std::make_unique<RopeTable>(config.rope, config.rope_dim, RopeKind::compressed, positions);
  model->rope_plain->place(model->ops->memory());
  model->rope_compressed->place(model->ops->memory());
  if (auto ready = model->ops->wait(); !ready) return ready.error();
  return model;
}

}  // namespace tandem::gpu
