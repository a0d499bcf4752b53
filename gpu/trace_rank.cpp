// Prefill in chunks, forced tokens one by one or in verify bursts.
#include "gpu/trace_rank.hpp"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

namespace tandem::gpu {
namespace {

ModelOptions model_options(const TraceOptions& options, int ranks) {
  ModelOptions result;
  result.folder = options.model;
  result.numerics = options.numerics;
  result.backend = options.backend;
  result.max_positions = static_cast<std::int64_t>(options.ids.size() + options.then.size()) + options.spec + 1;
  const int cores = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  result.threads = std::max(1, cores / ranks);
  result.draft = options.spec > 0 || options.layers;  // the taps are among the tensors of the layers
  return result;
}

CacheLimits cache_limits(const TraceOptions& options, const Model& model) {
  CacheLimits limits;
  limits.max_positions = model.max_positions;
  limits.kv_tokens = model.max_positions + page_entries * 64;
  const auto prompt = static_cast<int>(options.ids.size());
  limits.chunk_rows_max = std::max(options.chunk > 0 ? std::min(options.chunk, prompt) : prompt, options.spec + 1);
  return limits;
}

CollectingProbe::Options probe_options(const TraceOptions& options, const Model& model) {
  CollectingProbe::Options result;
  result.rounds = model.numerics.bf16_activations;
  result.own_heads_only = model.communicator->rank() > 0;
  result.prompt_positions = static_cast<std::int64_t>(options.ids.size());
  return result;
}

}  // namespace

TraceRank::TraceRank(const TraceOptions& options, std::unique_ptr<Model> model, CacheLayout layout)
    : options_(options),
      model_(std::move(model)),
      pools_(std::move(layout), model_->ops->memory()),
      forward_(*model_),
      draft_network_(*model_, forward_.workspace()),
      output_(probe_options(options, *model_)) {}

Result<std::unique_ptr<TraceRank>> TraceRank::load(const TraceOptions& options, Communicator& communicator) {
  auto model = load_model(model_options(options, communicator.size()), communicator, {}, nullptr);
  if (!model) return model.error();
  auto layout = plan_caches((*model)->config, (*model)->numerics, cache_limits(options, **model));
  if (!layout) return layout.error();
  std::unique_ptr<TraceRank> rank(new TraceRank(options, std::move(*model), std::move(*layout)));
  auto sequence = rank->pools_.open(rank->model_->max_positions);
  if (!sequence) return sequence.error();
  rank->sequence_ = std::move(*sequence);
  return rank;
}

Result<TraceTensors> TraceRank::run() {
  if (auto ok = prefill(); !ok) return ok.error();
  if (auto ok = options_.spec > 0 ? force_with_drafts() : force_one_by_one(); !ok) return ok.error();
  return std::move(output_.tensors());
}

Result<ForwardResult> TraceRank::feed(std::span<const std::int32_t> tokens, Probe* probe) {
  const std::int64_t first = sequence_->length();
  if (auto ok = sequence_->append(tokens); !ok) return ok.error();
  RowBatch rows;
  rows.add(*sequence_, first, static_cast<std::int32_t>(tokens.size()));
  ForwardOptions options;
  options.taps = options_.spec > 0 || probe != nullptr;
  options.probe = probe;
  return forward_.run(rows, options);
}

Result<void> TraceRank::keep_logits(const char* name, const ForwardResult& result, std::int32_t rows, Probe* probe) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto logits = forward_.logits(result, numbers, probe);
  if (!logits) return logits.error();
  Buffer copy;
  const auto readable = on_host(model_->ops->memory(), *logits, copy);
  if (!readable) return readable.error();
  output_.record(name, *readable, {readable->rows, readable->cols});
  return {};
}

Result<void> TraceRank::insert(const ForwardResult& result, std::int32_t rows) {
  if (options_.spec == 0) return {};
  RowBatch committed;
  committed.add(*sequence_, result.rows.position(0), rows);
  return draft_network_.insert(committed, result.taps.slice_rows(0, rows));
}

Result<void> TraceRank::prefill() {
  const std::span<const std::int32_t> ids(options_.ids);
  const std::size_t chunk = options_.chunk > 0 ? static_cast<std::size_t>(options_.chunk) : ids.size();
  Probe* probe = options_.layers ? &output_ : nullptr;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const std::size_t count = std::min(chunk, ids.size() - first);
    const auto result = feed(ids.subspan(first, count), probe);
    if (!result) return result.error();
    if (auto ok = keep_logits("logits", *result, result->rows.rows(), probe); !ok) return ok;
    if (auto ok = insert(*result, result->rows.rows()); !ok) return ok;
  }
  return {};
}

Result<void> TraceRank::force_one_by_one() {
  for (const std::int32_t token : options_.then) {
    const auto result = feed({&token, 1}, nullptr);
    if (!result) return result.error();
    if (auto ok = keep_logits("decode", *result, 1, nullptr); !ok) return ok;
  }
  return {};
}

Result<std::vector<std::int32_t>> TraceRank::propose(std::int32_t anchor) {
  const DraftLane lane{sequence_.get(), anchor, options_.spec};
  auto drafts = draft_network_.propose({&lane, 1});
  if (!drafts) return drafts.error();
  return std::move(drafts->front().tokens);
}

Result<void> TraceRank::force_with_drafts() {
  const auto& then = options_.then;
  for (std::size_t at = 0; at < then.size();) {
    auto drafts = propose(then[at]);
    if (!drafts) return drafts.error();
    std::vector<std::int32_t> burst{then[at]};
    burst.insert(burst.end(), drafts->begin(), drafts->end());
    const auto result = feed(burst, nullptr);
    if (!result) return result.error();

    std::int32_t accepted = 0;
    while (accepted < options_.spec && at + 1 + static_cast<std::size_t>(accepted) < then.size() &&
           (*drafts)[static_cast<std::size_t>(accepted)] == then[at + 1 + static_cast<std::size_t>(accepted)]) {
      ++accepted;
    }
    if (auto ok = sequence_->truncate(result->rows.position(0) + 1 + accepted); !ok) return ok;
    if (auto ok = keep_logits("decode", *result, 1 + accepted, nullptr); !ok) return ok;
    if (auto ok = insert(*result, 1 + accepted); !ok) return ok;
    output_.record("draft", Tensor::i32(drafts->data(), 1, options_.spec), {1, options_.spec});
    output_.record("accepted", Tensor::i32(&accepted, 1, 1), {1});
    at += 1 + static_cast<std::size_t>(accepted);
  }
  return {};
}

}  // namespace tandem::gpu
