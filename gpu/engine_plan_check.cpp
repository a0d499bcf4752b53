// Checks one plan against the open lanes. Walks the plan in execution order: close, open, prefill, decode.
#include "gpu/engine_plan_check.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace tandem::gpu {
namespace {

// What a lane will look like when its work of this plan begins.
struct Expected {
  std::int64_t length = 0;
  std::int64_t capacity = 0;
  bool decoding = false;
  bool dead = false;  // plans are sent ahead of results: work for a dead lane is no breach, it is answered with the
                      // lane's error
  bool used = false;
};

auto is_outside(const PlanLimits& limits) {
  return [&limits](TokenId token) { return token < 0 || token >= limits.vocab_size; };
}

class PlanCheck {
 public:
  PlanCheck(const StepPlan& plan, const PlanLimits& limits, const FindLane& find)
      : plan_(plan), limits_(limits), find_(find) {}

  Result<void> run() {
    for (const SequenceId id : plan_.close) {
      if (find_(id) == nullptr || closed(id) > 1) return refuse(id, "closed", "an open sequence, once");
    }
    for (const SequenceOpen& open : plan_.open) {
      if (auto ok = check_open(open); !ok) return ok;
    }
    for (const PrefillWork& work : plan_.prefill) {
      if (auto ok = check_prefill(work); !ok) return ok;
    }
    for (const DecodeWork& work : plan_.decode) {
      if (auto ok = check_decode(work); !ok) return ok;
    }
    return {};
  }

 private:
  static Result<void> refuse(SequenceId id, const std::string& found, const std::string& expected) {
    return Error{ErrorCode::invalid_argument, "plan, sequence " + std::to_string(id), found, expected};
  }

  std::ptrdiff_t closed(SequenceId id) const { return std::count(plan_.close.begin(), plan_.close.end(), id); }

  // Returns the lane as this plan will find it, or null.
  Expected* lane(SequenceId id) {
    if (const auto known = lanes_.find(id); known != lanes_.end()) return &known->second;
    const Lane* open = closed(id) > 0 ? nullptr : find_(id);
    if (open == nullptr) return nullptr;
    const Expected expected{open->state->length(), open->state->capacity(), open->decoding, !open->error.empty(),
                            false};
    return &lanes_.emplace(id, expected).first->second;
  }

  Result<void> check_open(const SequenceOpen& open) {
    if (lane(open.id) != nullptr) return refuse(open.id, "opened while open", "a new id");
    if (open.max_tokens_total == 0) return refuse(open.id, "max_tokens_total 0", "at least 1");
    if (open.prompt_tokens > open.max_tokens_total)
      return refuse(open.id, "a prompt beyond max_tokens_total", "within it");
    if (std::any_of(open.sampling.opening.begin(), open.sampling.opening.end(), is_outside(limits_)))
      return refuse(open.id, "an opening outside the vocabulary", "0 to " + std::to_string(limits_.vocab_size - 1));
    lanes_.emplace(open.id, Expected{0, open.max_tokens_total, false, false, false});
    return {};
  }

  Result<void> check_prefill(const PrefillWork& work) {
    Expected* found = lane(work.id);
    if (found == nullptr) return refuse(work.id, "prefill of an unknown sequence", "an open one");
    if (found->used) return refuse(work.id, "two pieces of work", "one a step");
    found->used = true;
    if (found->dead) return {};
    if (found->decoding) return refuse(work.id, "prefill behind a sampled token", "decode");
    if (work.start != found->length) {
      return refuse(work.id, "start " + std::to_string(work.start), std::to_string(found->length));
    }
    const auto count = static_cast<std::int64_t>(work.tokens.size());
    if (count < 1 || count > limits_.chunk_rows_max) {
      return refuse(work.id, std::to_string(count) + " rows", "1 to " + std::to_string(limits_.chunk_rows_max));
    }
    if (found->length + count > found->capacity) return refuse(work.id, "tokens beyond max_tokens_total", "fewer");
    if (std::any_of(work.tokens.begin(), work.tokens.end(), is_outside(limits_))) {
      return refuse(work.id, "a token outside the vocabulary", "0 to " + std::to_string(limits_.vocab_size - 1));
    }
    return {};
  }

  Result<void> check_decode(const DecodeWork& work) {
    Expected* found = lane(work.id);
    if (found == nullptr) return refuse(work.id, "decode of an unknown sequence", "an open one");
    if (found->used) return refuse(work.id, "two pieces of work", "one a step");
    found->used = true;
    if (found->dead) return {};
    if (!found->decoding) return refuse(work.id, "decode before a token was sampled", "prefill with `sample`");
    if (static_cast<std::int64_t>(work.drafts) > limits_.drafts_max) {
      return refuse(work.id, std::to_string(work.drafts) + " drafts", "at most " + std::to_string(limits_.drafts_max));
    }
    return {};
  }

  const StepPlan& plan_;
  const PlanLimits& limits_;
  const FindLane& find_;
  std::map<SequenceId, Expected> lanes_;
};

}  // namespace

Result<void> check_plan(const StepPlan& plan, const PlanLimits& limits, const FindLane& find) {
  return PlanCheck(plan, limits, find).run();
}

}  // namespace tandem::gpu
