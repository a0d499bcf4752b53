// EngineCore: the Engine over a loaded Model. A step is: agree on the plan, close and open lanes, one forward pass over
// all rows, sample, commit, prepare the next drafts.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "engram/reader.hpp"
#include "gpu/engine.hpp"
#include "gpu/engine_lane.hpp"
#include "gpu/engine_pass.hpp"
#include "gpu/engine_plan_check.hpp"
#include "gpu/model/dspark.hpp"
#include "gpu/model/forward.hpp"
#include "gpu/state/cache_pools.hpp"

namespace tandem::gpu {

class EngineCore final : public Engine {
 public:
  EngineCore(std::unique_ptr<Model> model, CacheLayout layout, EngineInfo info);

  const EngineInfo& info() const noexcept override { return info_; }
  Result<StepResult> step(const StepPlan& plan) override;

 private:
  Result<StepResult> execute_watched(const StepPlan& plan);
  Result<StepResult> execute(const StepPlan& plan);
  // Errors: mismatch if any rank has another plan.
  Result<void> agree(std::uint64_t hash);
  Result<void> close_and_open(const StepPlan& plan);
  // Feeds the plan's tokens into the sequences and lists the work; dead and full lanes are answered in `result`.
  Result<std::vector<LaneWork>> collect_work(const StepPlan& plan, StepResult& result);
  Result<LaneWork> feed_prefill(Lane& lane, const PrefillWork& work);
  Result<LaneWork> feed_decode(Lane& lane, const DecodeWork& work);
  // One pass over all rows, and the logits of those to be sampled.
  Result<ForwardResult> forward(std::vector<LaneWork>& work);
  // Prepares, while the device works, the step that will probably follow: every lane goes on with its newest token and
  // the drafts that it asked for.
  void prepare_next(const std::vector<LaneWork>& work);
  // Drafts to be made for the step after this one.
  std::int32_t drafts_after(const LaneWork& work) const noexcept;
  // Samples every lane's rows, accepts drafts, takes rejected rows back.
  Result<void> sample(std::vector<LaneWork>& work);
  // The token of one row of the logits.
  using TokenOfRow = std::function<Result<SampledToken>(LaneSampler& sampler, std::int64_t row, std::int64_t position)>;
  void sample_lane(LaneWork& work, std::int32_t first_row, const TokenOfRow& token_of);
  // Lets the backend draw the tokens of all rows, each as if the drafts before it were accepted; one a row.
  Result<std::vector<TokenId>> draw_rows(const std::vector<LaneWork>& work);
  // The token of a row whose logits are read for it alone.
  Result<SampledToken> sample_row(LaneSampler& sampler, std::int64_t row, std::int64_t position);
  // Inserts committed rows into the draft context and prepares drafts.
  Result<void> draft(std::vector<LaneWork>& work, const ForwardResult& rows);
  // What the Engram tables did since the last call.
  EngramUse take_engram_use();
  Lane* find(SequenceId id) noexcept;
  bool drafts() const noexcept { return info_.drafts_max > 0; }

  std::unique_ptr<Model> model_;
  EngineInfo info_;
  CachePools pools_;
  ForwardPass forward_;
  EnginePass pass_;
  DraftNetwork draft_network_;
  Tensor logits_;       // of the rows to be sampled, in their lanes' order; empty if there are none
  Buffer logits_copy_;  // of the sampled rows, where the backend has memory of its own
  std::map<SequenceId, Lane> lanes_;
  engram::ReaderStats engram_seen_;
  std::string failure_;  // why the engine is dead
};

}  // namespace tandem::gpu
