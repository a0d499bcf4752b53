// Hash of a plan: FNV-1a over every field in order, counts included, so that no two different plans share a byte
// stream.
#include "gpu/step_plan.hpp"

#include <bit>
#include <concepts>

namespace tandem::gpu {
namespace {

class PlanHash {
 public:
  template <std::integral T>
  void add(T value) noexcept {
    auto bits = static_cast<std::uint64_t>(value);
    for (int byte = 0; byte < 8; ++byte) {
      state_ = (state_ ^ (bits & 0xFF)) * prime;
      bits >>= 8;
    }
  }
  void add(float value) noexcept { add(std::bit_cast<std::uint32_t>(value)); }
  void add(const LogitBias& value) noexcept {
    add(value.token);
    add(value.bias);
  }
  void add(const SamplingParams& value) noexcept {
    add(value.temperature);
    add(value.top_p);
    add(value.top_k);
    add(value.min_p);
    add(value.presence_penalty);
    add(value.frequency_penalty);
    add(value.repetition_penalty);
    add(value.seed);
    add(value.top_logprobs);
    add(value.logit_bias);
    add(value.forbidden);
    add(value.stop_ids);
    add(value.min_tokens);
    add(value.thinking_budget);
    add(value.think_end_id);
    add(value.opening);
  }
  void add(const SequenceOpen& value) noexcept {
    add(value.id);
    add(value.sampling);
    add(value.max_tokens_total);
    add(value.prompt_tokens);
    add(value.replayed);
  }
  void add(const PrefillWork& value) noexcept {
    add(value.id);
    add(value.start);
    add(value.tokens);
    add(value.sample);
    add(value.next_drafts);
  }
  void add(const DecodeWork& value) noexcept {
    add(value.id);
    add(value.drafts);
    add(value.next_drafts);
  }
  template <class T>
  void add(const std::vector<T>& values) noexcept {
    add(values.size());
    for (const T& value : values) add(value);
  }
  std::uint64_t value() const noexcept { return state_; }

 private:
  static constexpr std::uint64_t prime = 0x100000001B3;
  std::uint64_t state_ = 0xCBF29CE484222325;
};

}  // namespace

std::uint64_t StepPlan::hash() const noexcept {
  PlanHash hash;
  hash.add(step);
  hash.add(close);
  hash.add(open);
  hash.add(prefill);
  hash.add(decode);
  return hash.value();
}

}  // namespace tandem::gpu
