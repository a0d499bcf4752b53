// DSpark stages: context insertion and the block pass. The Markov chain is in markov_chain.cpp.
#include "gpu/model/dspark.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "gpu/model/markov_chain.hpp"

namespace tandem::gpu {
namespace {

std::string stage_scope(std::size_t stage) {
  return "mtp." + std::to_string(stage) + ".";
}

std::vector<RecordRing> draft_rings(const RowBatch& rows, int stage) {
  std::vector<RecordRing> rings;
  rings.reserve(static_cast<std::size_t>(rows.rows()));
  for (std::int32_t row = 0; row < rows.rows(); ++row) rings.push_back(rows.sequence(row).draft_window(stage));
  return rings;
}

RowBatch block_rows(std::span<const DraftLane> lanes, const DsparkConfig& config) {
  RowBatch rows;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.block_size), config.noise_token_id);
  for (const DraftLane& lane : lanes) {
    tokens.front() = lane.anchor;
    rows.add_block(*lane.sequence, lane.sequence->length(), tokens);
  }
  return rows;
}

// Every row of a block sees the same keys: the last W committed positions and the whole block. They are consecutive in
// the ring.
std::vector<AttentionRow> block_attention(const RowBatch& rows, std::span<const RecordRing> rings, int window) {
  std::vector<AttentionRow> attention(rings.size());
  for (const Segment& segment : rows.segments()) {
    for (std::int32_t i = 0; i < segment.count; ++i) {
      const auto row = static_cast<std::size_t>(segment.first_row + i);
      attention[row].window = rings[row];
      attention[row].window_first = std::max<std::int64_t>(0, segment.first_position - window);
      attention[row].window_last = segment.first_position + segment.count - 1;
    }
  }
  return attention;
}

Result<Tensor> block_site(const StepContext& step, const AttentionSite& site, const Tensor& input) {
  const Tensor query = unrotated_query(step, site, low_rank_query(step, site, input));
  return attend(step, site, query, block_attention(step.rows, site.rings, step.config().window));
}

Result<void> run_stages(StepContext& step, Residual& residual) {
  const auto& stages = step.model.weights.dspark.stages;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    step.scope = stage_scope(stage);
    const std::vector<RecordRing> rings = draft_rings(step.rows, static_cast<int>(stage));
    const AttentionSite site{stages[stage].attn, step.model.rope_plain->view(), rings};
    const auto attention = [&](const Tensor& input) { return block_site(step, site, input); };
    const MoeShape moe{step.config().dspark.experts_per_token, false};
    const BlockWeights* next = stage + 1 < stages.size() ? &stages[stage + 1] : nullptr;
    if (auto ok = run_block(step, {stages[stage], moe, next}, residual, attention); !ok) return ok;
  }
  step.scope.clear();
  return {};
}

// The block from its tokens to the logits that the chain begins with.
Result<void> run_block_pass(StepContext& step, DraftBlock& block) {
  Residual residual = embed(step);
  if (auto ok = run_stages(step, residual); !ok) return ok.error();
  block.hidden = step.workspace.f32(step.row_count(), step.config().hidden);
  step.ops().mhc_collapse(residual.streams, residual.pre, step.rounds(), block.hidden);
  step.show("hid", block.hidden, {block.hidden.rows, block.hidden.cols});
  const auto base = head_logits(step, block.hidden, step.model.weights.dspark.norm);
  if (!base) return base.error();
  block.base_logits = *base;
  step.show("base_logits", *base, {base->rows, base->cols});
  return {};
}

}  // namespace

Result<void> DraftNetwork::insert(const RowBatch& rows, const Tensor& features, Probe* probe) {
  if (rows.rows() == 0) return {};
  const Workspace::Scope scope(workspace_);
  StepContext step{model_, workspace_, rows, probe, {}};
  const DsparkWeights& weights = model_.weights.dspark;
  const Tensor product = workspace_.f32(rows.rows(), model_.config.hidden);
  const Tensor main = workspace_.f32(rows.rows(), model_.config.hidden);
  step.ops().linear(features, weights.main_proj, step.mode(weights.main_proj), product);
  step.ops().rmsnorm(product, weights.main_norm, model_.config.norm_eps, step.rounds(), main);
  step.show("main_x", main, {main.rows, main.cols});
  for (std::size_t stage = 0; stage < weights.stages.size(); ++stage) {
    step.scope = stage_scope(stage) + "ctx.";
    const std::vector<RecordRing> rings = draft_rings(rows, static_cast<int>(stage));
    store_window(step, {weights.stages[stage].attn, model_.rope_plain->view(), rings}, main);
  }
  return {};
}

Result<std::vector<Draft>> DraftNetwork::propose(std::span<const DraftLane> lanes, Probe* probe,
                                                 const std::function<void()>& meanwhile) {
  if (lanes.empty()) return std::vector<Draft>{};
  const RowBatch rows = block_rows(lanes, model_.config.dspark);
  StepContext step{model_, workspace_, rows, probe, {}};
  DraftBlock block;
  std::optional<Workspace::Scope> scope;  // each run of the body begins where the first one did
  const auto body = [&] {
    scope.reset();
    scope.emplace(workspace_);
    return run_block_pass(step, block);
  };
  const bool is_one = probe == nullptr && !model_.waits_for_ranks();
  if (auto ok = is_one ? step.ops().run_as_one(body) : body(); !ok) return ok.error();
  if (meanwhile) meanwhile();
  return chain_drafts(step, block, lanes);
}

}  // namespace tandem::gpu
