// Making the shard, its caches and its steps.
#include "gpu/cuda/bench/random_shard.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "gpu/model/random_model.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

constexpr std::int64_t piece = 2048;  // rows written or appended at a time
constexpr int ranks = 2;

// Writes entries [0, count) of one cache, the same random rows again and again.
void fill_cache(const Model& model, PagedRecords cache, int width, std::int64_t count) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(piece * width));
  for (float& value : values) value = normal(engine);
  Workspace workspace(model.ops->memory());
  const Tensor rows = workspace.f32(piece, width);
  model.ops->memory().upload(std::as_bytes(std::span(values)), rows.data);
  for (std::int64_t first = 0; first < count; first += piece) {
    const std::int64_t some = std::min(piece, count - first);
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(some));
    std::iota(numbers.begin(), numbers.end(), static_cast<std::int32_t>(first));
    model.ops->write_entries(rows.slice_rows(0, some), std::vector<PagedRecords>(numbers.size(), cache), numbers);
  }
}

}  // namespace

Result<std::unique_ptr<RandomShard>> RandomShard::make(const ShardOptions& options) {
  std::ifstream file(options.config);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto config = ModelConfig::parse(text, options.config.string());
  if (!config) return config.error();
  RandomModelOptions wanted;
  wanted.config = std::move(*config);
  wanted.backend = "cuda";
  wanted.ranks = ranks;
  wanted.max_positions = options.positions_most;
  wanted.draft = false;
  std::unique_ptr<RandomShard> shard(new RandomShard);
  shard->communicator_ = make_solo_communicator();
  auto model = make_random_model(wanted, *shard->communicator_);
  if (!model) return model.error();
  shard->model_ = std::move(*model);
  CacheLimits limits;
  limits.max_positions = options.positions_most;
  limits.kv_tokens = options.positions_most + piece;
  limits.chunk_rows_max = std::max<std::int32_t>(options.rows_most, piece);
  auto layout = plan_caches(shard->model_->config, shard->model_->numerics, limits);
  if (!layout) return layout.error();
  shard->pools_ = std::make_unique<CachePools>(std::move(*layout), shard->model_->ops->memory());
  shard->forward_ = std::make_unique<ForwardPass>(*shard->model_);
  shard->pass_ = std::make_unique<EnginePass>(*shard->forward_);
  auto sequence = shard->pools_->open(options.positions_most);
  if (!sequence) return sequence.error();
  shard->sequence_ = std::move(*sequence);
  if (auto ok = shard->fill_caches(options.positions_most); !ok) return ok.error();
  return shard;
}

Result<void> RandomShard::fill_caches(std::int64_t positions) {
  const ModelConfig& config = model_->config;
  for (const int layer : config.kv_sources) {
    const std::int64_t entries = positions / config.roles[static_cast<std::size_t>(layer)].ratio;
    fill_cache(*model_, sequence_->entries(layer), config.head_dim, entries);
    fill_cache(*model_, sequence_->index_keys(layer), config.index_head_dim, entries);
  }
  return model_->ops->wait();
}

Result<void> RandomShard::append(std::int64_t rows, Tokens tokens) {
  std::vector<std::int32_t> list(static_cast<std::size_t>(rows), 17);
  if (tokens != Tokens::one) {
    for (std::int32_t& token : list) {
      std::mt19937_64 random(++drawn_);
      token = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(model_->config.vocab_size - 100));
    }
  }
  const std::size_t different = tokens == Tokens::some ? (2 * list.size() + 2) / 3 : list.size();
  for (std::size_t i = different; i < list.size(); ++i) list[i] = list[i - different];
  return sequence_->append(list);
}

Result<void> RandomShard::extend(std::int64_t length, Tokens tokens) {
  while (sequence_->length() < length) {
    if (auto ok = append(std::min(piece, length - sequence_->length()), tokens); !ok) return ok;
  }
  return {};
}

Result<void> RandomShard::step(std::int32_t rows, std::int32_t logits, Tokens tokens, const ForwardOptions& options,
                               bool as_one) {
  const std::int64_t first = sequence_->length();
  if (auto ok = append(rows, tokens); !ok) return ok;
  PassRows pass;
  pass.options = options;
  pass.rows.add(*sequence_, first, rows);
  pass.wanted.resize(static_cast<std::size_t>(logits));
  std::iota(pass.wanted.begin(), pass.wanted.end(), rows - logits);
  if (as_one) {
    const auto done = pass_->run(pass);
    return done ? Result<void>() : done.error();
  }
  const auto passed = forward_->run(pass.rows, options);
  if (!passed) return passed.error();
  if (pass.wanted.empty()) return {};
  const auto made = forward_->logits(*passed, pass.wanted);
  return made ? Result<void>() : made.error();
}

void RandomShard::prepare(std::int32_t rows) {
  const NextRows next[] = {{sequence_.get(), rows}};
  pass_->prepare(next, false);
}

}  // namespace tandem::gpu::cuda::bench
