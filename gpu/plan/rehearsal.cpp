// The step is built as the engine builds one: sequences of the caches, a batch of rows, a pass, logits, drafts.
#include "gpu/plan/rehearsal.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gpu/model/dspark.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu {
namespace {

using Sequences = std::vector<std::unique_ptr<SequenceState>>;

// The caches of the rehearsal cost nothing: every lane may be as long as the longest.
Result<CacheLayout> rehearsal_layout(const Model& model, const StepLimits& limits) {
  CacheLimits wanted;
  wanted.max_positions = limits.context;
  wanted.lanes_max = limits.lanes;
  wanted.chunk_rows_max = limits.prefill_rows;
  const std::int64_t page_room = std::int64_t{page_entries} * 64;  // a lane's last page is not full
  wanted.kv_tokens = limits.lanes * (limits.context + page_room);
  return plan_caches(model.config, model.numerics, wanted);
}

Result<std::unique_ptr<SequenceState>> open_sequence(CachePools& pools, std::int64_t length, std::int64_t chunk) {
  auto sequence = pools.open(length);
  if (!sequence) return sequence;
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(chunk), 0);
  for (std::int64_t done = 0; done < length; done += chunk) {
    const auto count = static_cast<std::size_t>(std::min(chunk, length - done));
    if (auto ok = (*sequence)->append(std::span(ids).first(count)); !ok) return ok.error();
  }
  return sequence;
}

// The longest sequence's last chunk, then chunks of other lanes until the step is full.
Result<Sequences> open_sequences(CachePools& pools, const StepLimits& limits, RowBatch& rows) {
  Sequences sequences;
  std::int64_t room = limits.step_rows;
  for (int lane = 0; lane < limits.lanes && room > 0; ++lane) {
    const std::int64_t chunk = std::min<std::int64_t>({limits.prefill_rows, limits.context, room});
    auto sequence = open_sequence(pools, lane == 0 ? limits.context : chunk, limits.prefill_rows);
    if (!sequence) return sequence.error();
    rows.add(**sequence, (*sequence)->length() - chunk, static_cast<std::int32_t>(chunk));
    sequences.push_back(std::move(*sequence));
    room -= chunk;
  }
  return sequences;
}

// All rows but the first go to the top: the largest step that still has a lower and an upper part.
std::vector<std::int32_t> rows_to_top(const ModelConfig& config, const RowBatch& rows) {
  if (upper_rows_needed(config) < 0) return {};
  std::vector<std::int32_t> upper;
  for (const Segment& segment : rows.segments()) upper.push_back(segment.count);
  if (rows.rows() > 1) --upper.front();
  return upper;
}

Result<void> propose_drafts(ForwardPass& pass, const ForwardResult& passed, const Sequences& sequences, int drafts) {
  DraftNetwork network(pass.model(), pass.workspace());
  if (auto ok = network.insert(passed.rows, passed.taps); !ok) return ok;
  std::vector<DraftLane> lanes;
  for (const auto& sequence : sequences) lanes.push_back({sequence.get(), 0, drafts});
  const auto proposed = network.propose(lanes);
  if (!proposed) return proposed.error();
  return {};
}

}  // namespace

Result<StepUse> run_largest_step(const Model& model, const StepLimits& limits) {
  auto layout = rehearsal_layout(model, limits);
  if (!layout) return layout.error();
  CachePools pools(std::move(*layout), model.ops->memory());
  RowBatch rows;
  const Result<Sequences> sequences = open_sequences(pools, limits, rows);
  if (!sequences) return sequences.error();

  const bool drafts = model.config.dspark.stages > 0;
  ForwardPass pass(model);
  const auto passed = pass.run(rows, {drafts, nullptr, rows_to_top(model.config, rows)});
  if (!passed) return passed.error();
  const std::int64_t burst = drafts ? limits.drafts + 1 : 1;
  std::vector<std::int32_t> sampled(
      static_cast<std::size_t>(std::min<std::int64_t>(limits.lanes * burst, passed->hidden.rows)));
  std::iota(sampled.begin(), sampled.end(), 0);
  if (const auto logits = pass.logits(*passed, sampled); !logits) return logits.error();
  if (drafts) {
    if (auto ok = propose_drafts(pass, *passed, *sequences, limits.drafts); !ok) return ok.error();
  }
  return StepUse{rows.rows(), static_cast<std::int64_t>(sampled.size()), pass.workspace().bytes()};
}

Rehearsal::Rehearsal(ModelConfig config, const Numerics& numerics, ModelWeights shapes, const Setup& setup)
    : backend_(setup.backend), threads_(setup.threads), ranks_(setup.ranks), model_(std::make_unique<Model>()) {
  const bool has_engram = !config.engram.layers.empty();
  engram_floats_ = has_engram ? config.engram.row_width() + (config.hc_mult + std::int64_t{1}) * config.hidden : 0;
  for (LayerRole& role : config.roles) role.has_engram = false;
  model_->config = std::move(config);
  model_->numerics = numerics;
  model_->weights = std::move(shapes);
  model_->weights.dspark.confidence = {};  // the only weight that is read on the host
  // Angles are never read either: one position is enough of a table.
  model_->rope_plain = std::make_unique<RopeTable>(model_->config.rope, model_->config.rope_dim, RopeKind::plain, 1);
  model_->rope_compressed =
      std::make_unique<RopeTable>(model_->config.rope, model_->config.rope_dim, RopeKind::compressed, 1);
}

Result<RehearsedStep> Rehearsal::run(const StepLimits& limits) {
  ScratchMeter scratch(backend_, threads_);
  RehearsalGroup group(ranks_);
  model_->ops = std::make_unique<RehearsalOps>(scratch);
  model_->communicator = &group;
  const Result<StepUse> use = run_largest_step(*model_, limits);
  if (!use) return use.error();
  const ModelConfig& config = model_->config;
  RehearsedStep step;
  step.rows = use->rows;
  const auto with_engram = static_cast<std::uint64_t>(step.rows * (config.streams_width() + engram_floats_));
  step.workspace_bytes = std::max<std::uint64_t>(use->workspace_bytes, sizeof(float) * with_engram);
  step.scratch_bytes = scratch.bytes();
  step.exchange_bytes = group.bytes_most();
  step.logits_bytes = static_cast<std::uint64_t>(use->rows_sampled * config.vocab_size) * sizeof(float);
  return step;
}

}  // namespace tandem::gpu
