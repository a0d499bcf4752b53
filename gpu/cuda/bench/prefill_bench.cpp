// Chunks of one prompt, all rows through all layers ("exact": the last rows of a prompt) or only up to the last source
// of compressed entries ("replay": the rows before them, whose upper layers are never needed; see upper_rows_needed).
//
// Figures are of one chunk behind one that is not counted. Operations counted: two for each weight that a row meets,
// plus attention's products with its keys. `of mma` is their share of what the card's matrix instruction does alone,
// measured in the same run. `limit` is the sum over all matrices of the nearest of three limits (step_limit.hpp): every
// expert is decoded once for its share of the rows.
#include "gpu/cuda/bench/prefill_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "gpu/cuda/bench/card_limits.hpp"
#include "gpu/cuda/bench/random_shard.hpp"
#include "gpu/cuda/bench/step_limit.hpp"
#include "gpu/cuda/bench/stopwatch.hpp"
#include "gpu/cuda/cuda_ops.hpp"

namespace tandem::gpu::cuda::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Operations of one row in one layer of this rank, with attention over `keys` keys and scores of `index_keys`.
double operations_of_row(const ModelConfig& c, const BlockWeights& block, double keys, double index_keys) {
  const auto weights = [](const Linear& w) { return static_cast<double>(w.n) * static_cast<double>(w.k); };
  const auto partial = [&](const PartialLinear& w) {
    return static_cast<double>(w.n) * static_cast<double>(w.k_local);
  };
  const AttentionWeights& a = block.attn;
  double sum = weights(a.wq_a) + weights(a.wq_b) + weights(a.wkv) + partial(a.wo_b) + weights(a.indexer.wq_b);
  for (const Linear& group : a.wo_a) sum += weights(group);
  const ExpertWeights& expert = block.moe.experts.front();
  const ExpertWeights& shared = block.moe.shared;
  sum += weights(block.moe.gate) + weights(shared.w1) + weights(shared.w3) + partial(shared.w2);
  sum += c.experts_per_token * (weights(expert.w1) + weights(expert.w3) + partial(expert.w2));
  return 2 * sum + 4 * keys * static_cast<double>(a.wq_b.n) + 2 * index_keys * static_cast<double>(a.indexer.wq_b.n);
}

double operations_of_chunk(const Model& model, std::int64_t rows, std::int64_t position, int layers) {
  const ModelConfig& c = model.config;
  double sum = 0;
  for (int layer = 0; layer < layers; ++layer) {
    const LayerRole& role = c.roles[static_cast<std::size_t>(layer)];
    const std::int64_t entries = role.ratio == 0 ? 0 : std::min<std::int64_t>(position / role.ratio, c.index_topk);
    const auto keys = static_cast<double>(std::min<std::int64_t>(position + rows, c.window) + entries);
    const double middle = static_cast<double>(position) + static_cast<double>(rows) / 2;
    const BlockWeights& block = model.weights.layers[static_cast<std::size_t>(layer)];
    sum += static_cast<double>(rows) * operations_of_row(c, block, keys, index_keys_of_row(c, role, middle));
  }
  return sum;
}

struct Mode {
  const char* name;
  ForwardOptions options;
  int layers;  // that a row passes
};

std::vector<Mode> modes_of(const ModelConfig& config) {
  std::vector<Mode> modes{{"exact", {}, config.layers}};
  if (upper_rows_needed(config) < 0) return modes;
  Mode replay{"replay", {}, *std::max_element(config.kv_sources.begin(), config.kv_sources.end())};
  replay.options.upper_rows = {0};
  modes.push_back(replay);
  return modes;
}

Result<double> time_chunk(RandomShard& shard, int chunk, const Mode& mode) {
  Ops& ops = *shard.model().ops;
  double seconds = 0;
  for (int i = 0; i < 2; ++i) {
    const auto start = Clock::now();
    if (auto ok = shard.step(chunk, 0, Tokens::random, mode.options, false); !ok) return ok.error();
    if (auto ok = ops.wait(); !ok) return ok.error();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return seconds;
}

class Report {
 public:
  Report(std::ostream& out, const CardLimits& card, bool json) : out_(out), card_(card), json_(json) {
    write_limits(out, card, json);
  }

  void add(const RandomShard& shard, int chunk, const Mode& mode, double seconds) const {
    const std::int64_t position = shard.length() - chunk;
    const double rate = operations_of_chunk(shard.model(), chunk, position, mode.layers) / seconds;
    const double share = card_.multiply == 0 ? 0 : rate / card_.multiply;
    const double limit = limit_of_chunk(shard, chunk, mode);
    out_
        << (json_
                ? fmt::format(
                      R"({{"bench":"prefill","chunk":{},"position":{},"mode":"{}","ms":{:.3f},"tokens_per_s":{:.1f},)"
                      R"("operations_per_s":{:.4g},"of_mma":{:.4f},"limit_ms":{:.3f}}})"
                      "\n",
                      chunk, position, mode.name, seconds * 1e3, chunk / seconds, rate, share, limit * 1e3)
                : fmt::format(
                      "chunk {:>5} at {:>7} {:7} {:9.2f} ms  {:8.0f} tokens/s  {:6.1f} TFLOP/s, {:.1f} % of mma, limit "
                      "{:.1f} ms, {:.1f} % of it\n",
                      chunk, position, mode.name, seconds * 1e3, chunk / seconds, rate / 1e12, 100 * share, limit * 1e3,
                      100 * limit / seconds))
        << std::flush;
  }

 private:
  // Seconds. Rows of a chunk choose experts independently: all of them, if there are rows enough.
  double limit_of_chunk(const RandomShard& shard, int chunk, const Mode& mode) const {
    const ModelConfig& c = shard.model().config;
    const int touched = std::min(c.experts, chunk * c.experts_per_token);
    const std::vector<int> distinct(static_cast<std::size_t>(mode.layers), touched);
    return limit_of_step(shard.model(), card_, {chunk, shard.length(), 0, distinct}).seconds();
  }

  std::ostream& out_;
  const CardLimits& card_;
  bool json_;
};

Result<void> write_operations(RandomShard& shard, int chunk, std::ostream& out, bool json) {
  Stopwatch watch;
  Ops& ops = *shard.model().ops;
  observe_launches(ops, &watch);
  auto done = shard.step(chunk, 0, Tokens::random, {}, false);
  if (done) done = ops.wait();
  observe_launches(ops, nullptr);
  if (done) watch.write(out, json);
  return done;
}

}  // namespace

Result<void> bench_prefill(const PrefillBenchOptions& options, std::ostream& out) {
  const auto card = measure_limits(0);
  if (!card) return card.error();
  const Report report(out, *card, options.json);
  const int longest_chunk = *std::max_element(options.chunks.begin(), options.chunks.end());
  const std::int64_t farthest = *std::max_element(options.positions.begin(), options.positions.end());
  const std::int64_t spare = 4 * static_cast<std::int64_t>(options.chunks.size() + 1) * longest_chunk;
  auto shard = RandomShard::make({options.config, farthest + spare, longest_chunk});
  if (!shard) return shard.error();
  for (const std::int64_t position : options.positions) {
    if (auto ok = (*shard)->extend(position, Tokens::random); !ok) return ok;
    for (const int chunk : options.chunks) {
      for (const Mode& mode : modes_of((*shard)->model().config)) {
        const auto seconds = time_chunk(**shard, chunk, mode);
        if (!seconds) return seconds.error();
        report.add(**shard, chunk, mode, *seconds);
      }
    }
  }
  if (!options.operations) return {};
  return write_operations(**shard, options.chunks.front(), out, options.json);
}

}  // namespace tandem::gpu::cuda::bench
