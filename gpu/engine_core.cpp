// One step of an engine. Everything that could differ between ranks (sampling, acceptance, drafts) follows from
// gathered logits and keyed random numbers, so all ranks go on alike without telling each other.
#include "gpu/engine_core.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "gpu/model/row_copy.hpp"

namespace tandem::gpu {
namespace {

LaneResult lane_result(const LaneWork& work) {
  LaneResult result;
  result.id = work.lane->id;
  result.length = static_cast<std::uint32_t>(work.lane->state->length());
  result.emitted = work.emitted;
  result.drafted = work.drafted;
  result.accepted = work.accepted;
  result.error = work.lane->error;
  return result;
}

LaneResult idle_result(const Lane& lane) {
  LaneResult result;
  result.id = lane.id;
  result.length = static_cast<std::uint32_t>(lane.state->length());
  result.error = lane.error;
  return result;
}

// Rows of the top whose logits are needed: the last one of a prompt, all of a verify burst.
std::vector<std::int32_t> sampled_rows(const std::vector<LaneWork>& work) {
  std::vector<std::int32_t> rows;
  for (const LaneWork& lane : work) {
    if (!lane.sample) continue;
    const std::int32_t count = lane.lane->decoding ? lane.count : 1;
    for (std::int32_t i = lane.upper - count; i < lane.upper; ++i) rows.push_back(lane.first_row + i);
  }
  return rows;
}

// Position of the first token that a lane samples.
std::int64_t first_sampled(const LaneWork& work) {
  return work.lane->decoding ? work.start + 1 : work.start + work.count;
}

// Positions of a chunk that must run through all layers: those of the last `needed` of the prompt.
std::int32_t upper_rows(const LaneWork& work, std::int64_t prompt_tokens, std::int64_t needed) {
  if (prompt_tokens == 0 || needed < 0) return work.count;
  const std::int64_t first = std::max(work.start, prompt_tokens - needed);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(work.start + work.count - first, 0, work.count));
}

}  // namespace

EngineCore::EngineCore(std::unique_ptr<Model> model, CacheLayout layout, EngineInfo info)
    : model_(std::move(model)),
      info_(std::move(info)),
      pools_(std::move(layout), model_->ops->memory()),
      forward_(*model_),
      pass_(forward_),
      draft_network_(*model_, forward_.workspace()) {}

Lane* EngineCore::find(SequenceId id) noexcept {
  const auto found = lanes_.find(id);
  return found == lanes_.end() ? nullptr : &found->second;
}

Result<StepResult> EngineCore::step(const StepPlan& plan) {
  if (!failure_.empty()) return Error{ErrorCode::unavailable, "engine", "dead: " + failure_, "a new engine"};
  const auto begin = std::chrono::steady_clock::now();
  auto result = execute_watched(plan);
  if (!result) {
    failure_ = result.error().message();
    return result;
  }
  result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result->engram = take_engram_use();
  return result;
}

EngramUse EngineCore::take_engram_use() {
  if (model_->engram == nullptr) return {};
  const engram::ReaderStats before = std::exchange(engram_seen_, model_->engram->stats());
  return {engram_seen_.rows - before.rows, engram_seen_.cache_hits - before.cache_hits,
          std::chrono::duration<double>(engram_seen_.waiting - before.waiting).count()};
}

// Where ranks exchange on their devices, nothing of a step may be believed before the group was asked how it fared.
Result<StepResult> EngineCore::execute_watched(const StepPlan& plan) {
  Communicator& group = *model_->communicator;
  if (!group.reaches_devices()) return execute(plan);
  group.watch(true);  // first: whoever ends the group from here on ends what is in flight too
  if (auto ended = group.failure()) return *ended;
  auto result = execute(plan);
  if (auto ended = group.failure()) return *ended;
  if (result) group.watch(false);
  return result;
}

Result<StepResult> EngineCore::execute(const StepPlan& plan) {
  StepResult result;
  result.step = plan.step;
  result.plan_hash = plan.hash();
  if (auto ok = agree(result.plan_hash); !ok) return ok.error();
  const PlanLimits limits{info_.lanes_max, info_.chunk_rows_max, info_.vocab_size, info_.drafts_max};
  if (auto ok = check_plan(plan, limits, [this](SequenceId id) { return find(id); }); !ok) return ok.error();
  if (auto ok = close_and_open(plan); !ok) return ok.error();
  auto work = collect_work(plan, result);
  if (!work) return work.error();
  if (!work->empty()) {
    auto rows = forward(*work);
    if (!rows) return rows.error();
    if (!drafts()) prepare_next(*work);
    if (auto ok = sample(*work); !ok) return ok.error();
    if (auto ok = draft(*work, *rows); !ok) return ok.error();
  }
  if (auto ok = model_->ops->wait(); !ok) return ok.error();
  for (const LaneWork& lane : *work) result.lanes.push_back(lane_result(lane));
  return result;
}

Result<void> EngineCore::agree(std::uint64_t hash) {
  Communicator& communicator = *model_->communicator;
  if (communicator.size() == 1) return {};
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  const std::span<const std::uint64_t> own(&hash, 1);
  if (auto ok = communicator.all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(all))); !ok) return ok;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == hash) continue;
    return Error{ErrorCode::mismatch, "plan of rank " + std::to_string(rank), std::to_string(all[rank]),
                 std::to_string(hash)};
  }
  return {};
}

Result<void> EngineCore::close_and_open(const StepPlan& plan) {
  if (!plan.close.empty() || !plan.open.empty()) pass_.forget();
  for (const SequenceId id : plan.close) lanes_.erase(id);
  for (const SequenceOpen& open : plan.open) {
    auto state = pools_.open(open.max_tokens_total);
    if (!state) return state.error();
    Lane lane;
    lane.id = open.id;
    lane.state = std::move(*state);
    lane.sampler = LaneSampler(open.sampling, open.replayed.size());
    lane.prompt_tokens = open.prompt_tokens;
    lanes_.emplace(open.id, std::move(lane));
  }
  return {};
}

Result<LaneWork> EngineCore::feed_prefill(Lane& lane, const PrefillWork& work) {
  LaneWork fed;
  fed.lane = &lane;
  fed.start = lane.state->length();
  fed.count = static_cast<std::int32_t>(work.tokens.size());
  fed.sample = work.sample;
  fed.next_drafts = work.sample ? work.next_drafts : 0;
  if (auto ok = lane.state->append(work.tokens); !ok) return ok.error();
  fed.upper = upper_rows(fed, lane.prompt_tokens, upper_rows_needed(model_->config));
  if (work.sample) fed.upper = std::max(fed.upper, 1);
  return fed;
}

Result<LaneWork> EngineCore::feed_decode(Lane& lane, const DecodeWork& work) {
  // Verify rows must fit the sequence and a step; what does not fit is simply not verified, on every rank alike.
  const std::int64_t room =
      std::min<std::int64_t>(lane.state->capacity() - lane.state->length(), info_.chunk_rows_max) - 1;
  LaneWork fed;
  fed.lane = &lane;
  fed.start = lane.state->length();
  fed.drafted = static_cast<std::uint32_t>(std::min<std::int64_t>(
      {static_cast<std::int64_t>(work.drafts), static_cast<std::int64_t>(lane.drafts.size()), room}));
  lane.drafts.resize(fed.drafted);
  fed.count = static_cast<std::int32_t>(1 + fed.drafted);
  fed.upper = fed.count;
  fed.sample = true;
  fed.next_drafts = work.next_drafts;
  std::vector<TokenId> tokens{lane.next};
  tokens.insert(tokens.end(), lane.drafts.begin(), lane.drafts.end());
  if (auto ok = lane.state->append(tokens); !ok) return ok.error();
  return fed;
}

Result<std::vector<LaneWork>> EngineCore::collect_work(const StepPlan& plan, StepResult& result) {
  std::vector<LaneWork> all;
  for (const PrefillWork& work : plan.prefill) {
    Lane& lane = *find(work.id);
    if (!lane.error.empty()) {
      result.lanes.push_back(idle_result(lane));
      continue;
    }
    auto fed = feed_prefill(lane, work);
    if (!fed) return fed.error();
    all.push_back(std::move(*fed));
  }
  for (const DecodeWork& work : plan.decode) {
    Lane& lane = *find(work.id);
    if (!lane.error.empty() || lane.state->length() == lane.state->capacity()) {
      result.lanes.push_back(idle_result(lane));
      continue;
    }
    auto fed = feed_decode(lane, work);
    if (!fed) return fed.error();
    all.push_back(std::move(*fed));
  }
  return all;
}

Result<ForwardResult> EngineCore::forward(std::vector<LaneWork>& work) {
  PassRows pass;
  pass.options.taps = drafts();
  bool shortened = false;
  std::int32_t first_row = 0;
  for (LaneWork& lane : work) {
    pass.rows.add(*lane.lane->state, lane.start, lane.count);
    pass.options.upper_rows.push_back(lane.upper);
    shortened = shortened || lane.upper < lane.count;
    lane.first_row = first_row;
    first_row += lane.upper;
  }
  if (!shortened) pass.options.upper_rows.clear();
  pass.wanted = sampled_rows(work);
  auto passed = pass_.run(pass);
  if (!passed) return passed.error();
  logits_ = passed->logits;
  return std::move(passed->rows);
}

void EngineCore::prepare_next(const std::vector<LaneWork>& work) {
  std::vector<NextRows> next;
  for (const LaneWork& lane : work) {
    SequenceState& state = *lane.lane->state;
    if (!lane.sample || !lane.lane->error.empty() || state.length() == state.capacity()) return;
    next.push_back({&state, 1 + drafts_after(lane)});
  }
  pass_.prepare(next, drafts());
}

// No more than fit the sequence and a step.
std::int32_t EngineCore::drafts_after(const LaneWork& work) const noexcept {
  const SequenceState& state = *work.lane->state;
  const std::int64_t room = std::min<std::int64_t>(state.capacity() - state.length(), info_.chunk_rows_max) - 1;
  const std::int64_t wanted = std::min<std::int64_t>(work.next_drafts, info_.drafts_max);
  return static_cast<std::int32_t>(std::max<std::int64_t>(0, std::min(wanted, room)));
}

Result<void> EngineCore::sample(std::vector<LaneWork>& work) {
  if (logits_.empty()) return {};
  Memory& memory = model_->ops->memory();
  bool draws = !memory.is_host();
  for (LaneWork& lane : work) {
    if (!lane.sample) continue;
    if (!lane.lane->decoding) lane.lane->sampler.begin(lane.lane->state->tokens());
    draws = draws && !lane.lane->sampler.describes();
  }
  TokenOfRow token_of;
  if (draws) {
    auto drawn = draw_rows(work);
    if (!drawn) return drawn.error();
    token_of = [this, tokens = std::move(*drawn)](LaneSampler& sampler, std::int64_t row, std::int64_t position) {
      const TokenId token = tokens[static_cast<std::size_t>(row)];
      return token < 0 ? sample_row(sampler, row, position) : Result<SampledToken>(sampler.take(token));
    };
  } else {
    const auto readable = on_host(memory, logits_, logits_copy_);
    if (!readable) return readable.error();
    token_of = [logits = *readable](LaneSampler& sampler, std::int64_t row, std::int64_t position) {
      return sampler.sample({logits.row<float>(row), static_cast<std::size_t>(logits.cols)}, position);
    };
  }
  std::int32_t row = 0;
  for (LaneWork& lane : work) {
    if (!lane.sample) continue;
    const std::int32_t rows_sampled = lane.lane->decoding ? lane.count : 1;
    sample_lane(lane, row, token_of);
    row += rows_sampled;
  }
  return {};
}

Result<std::vector<TokenId>> EngineCore::draw_rows(const std::vector<LaneWork>& work) {
  std::vector<std::vector<TokenId>> generated;  // of every lane, with all of its drafts
  generated.reserve(work.size());
  std::vector<DrawRow> rows;
  for (const LaneWork& lane : work) {
    if (!lane.sample) continue;
    const LaneSampler& sampler = lane.lane->sampler;
    std::vector<TokenId>& tokens = generated.emplace_back(sampler.generated().begin(), sampler.generated().end());
    const std::size_t own = tokens.size();
    const std::vector<TokenId>& drafts = lane.lane->drafts;
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    const std::int64_t first = first_sampled(lane);
    for (std::uint32_t i = 0; i <= lane.drafted; ++i) {
      const std::span<const TokenId> before(tokens.data(), own + i);
      rows.push_back({static_cast<std::int64_t>(rows.size()), sampler.context(before, first + i)});
    }
  }
  std::vector<TokenId> drawn(rows.size(), -1);
  if (auto ok = model_->ops->draw_tokens(logits_, rows, drawn); !ok) return ok.error();
  return drawn;
}

Result<SampledToken> EngineCore::sample_row(LaneSampler& sampler, std::int64_t row, std::int64_t position) {
  const auto readable = on_host(model_->ops->memory(), logits_.slice_rows(row, 1), logits_copy_);
  if (!readable) return readable.error();
  return sampler.sample({readable->row<float>(0), static_cast<std::size_t>(readable->cols)}, position);
}

// Keyed exact verification: the choice of a row depends on (seed, position, logits, tokens before it) only. A draft is
// accepted if it is that choice, so the text is the one that decoding without drafts gives.
void EngineCore::sample_lane(LaneWork& work, std::int32_t first_row, const TokenOfRow& token_of) {
  Lane& lane = *work.lane;
  const std::int64_t committed = first_sampled(work);
  for (std::uint32_t i = 0; i <= work.drafted; ++i) {
    auto token = token_of(lane.sampler, first_row + static_cast<std::int64_t>(i), committed + i);
    if (!token) {
      lane.error = token.error().message();
      break;
    }
    lane.next = token->id;
    work.emitted.push_back(std::move(*token));
    if (i < work.drafted && lane.drafts[i] == lane.next) {
      ++work.accepted;
      continue;
    }
    break;
  }
  lane.decoding = true;
  lane.drafts.clear();
  const auto kept = lane.state->truncate(committed + work.accepted);
  if (!kept) lane.error = kept.error().message();
}

Result<void> EngineCore::draft(std::vector<LaneWork>& work, const ForwardResult& rows) {
  if (!drafts()) return {};
  RowBatch committed;
  std::vector<std::int32_t> numbers;
  std::vector<DraftLane> wanted;
  std::vector<Lane*> drafting;
  std::int64_t most = 0;  // had all drafts been accepted: memory behind it is the same in every step
  for (const LaneWork& lane : work) {
    SequenceState& state = *lane.lane->state;
    const auto kept = static_cast<std::int32_t>(state.length() - lane.start);
    const std::int32_t rejected = lane.count - kept;
    const std::int32_t insert = std::min<std::int32_t>(model_->config.window, lane.upper - rejected);
    most += std::min<std::int32_t>(model_->config.window, lane.upper);
    committed.add(state, state.length() - insert, insert);
    for (std::int32_t i = insert; i > 0; --i) numbers.push_back(lane.first_row + lane.upper - rejected - i);
    const std::int32_t count = drafts_after(lane);
    if (count < 1 || !lane.lane->error.empty()) continue;
    wanted.push_back({&state, lane.lane->next, count});
    drafting.push_back(lane.lane);
  }
  const Tensor features = forward_.workspace().f32(most, rows.taps.cols).slice_rows(0, committed.rows());
  copy_rows(*model_->ops, rows.taps, numbers, features);
  if (auto ok = draft_network_.insert(committed, features); !ok) return ok;
  // The next step verifies these drafts, whatever they will be.
  auto proposed = draft_network_.propose(wanted, nullptr, [&] { prepare_next(work); });
  if (!proposed) return proposed.error();
  for (std::size_t i = 0; i < drafting.size(); ++i) drafting[i]->drafts = std::move((*proposed)[i].tokens);
  return {};
}

}  // namespace tandem::gpu
