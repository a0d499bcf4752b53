// StepPlan and StepResult: what every rank executes in one step and what rank 0 reports. Small: ids and numbers only.
//
// All ranks get the same plans in the same order and reach the same discrete choices, so no token travels between
// nodes. A decoding sequence's next token and its drafts live inside the engine: a plan only says "continue, verify up
// to k drafts".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::gpu {

using TokenId = std::int32_t;
using SequenceId = std::uint64_t;

struct LogitBias {
  TokenId token = 0;
  float bias = 0;
};

// How tokens of a sequence are drawn. Order: bias and penalties, forbidden ids, temperature, top_k, top_p, min_p, draw.
struct SamplingParams {
  float temperature = 1.0F;  // 0 = greedy: argmax, lowest id on ties
  float top_p = 1.0F;        // (0, 1]
  std::int32_t top_k = 0;    // 0 = off
  float min_p = 0.0F;
  float presence_penalty = 0.0F;  // generated tokens only
  float frequency_penalty = 0.0F;
  float repetition_penalty = 1.0F;  // prompt and generated tokens
  std::uint64_t seed = 0;           // Philox key; the same seed and position draw the same number in any batch
  std::int32_t top_logprobs = -1;   // -1 none, 0 the chosen token's only, up to 20
  std::vector<LogitBias> logit_bias;
  std::vector<TokenId> forbidden;  // never sampled
  std::vector<TokenId> stop_ids;   // forbidden while fewer than min_tokens were generated
  std::uint32_t min_tokens = 0;
  // After that many generated tokens force `think_end_id` unless it was already sampled; -1 off.
  std::int32_t thinking_budget = -1;
  TokenId think_end_id = -1;
  // What the answer must begin with, whatever the logits say: behind `think_end_id` if there is one, else at once.
  // While it is to come, a stop id inside the reasoning only ends the reasoning.
  std::vector<TokenId> opening;
};

// Begins a sequence. Pages for `max_tokens_total` positions were accounted for by the scheduler.
struct SequenceOpen {
  SequenceId id = 0;
  SamplingParams sampling;
  std::uint32_t max_tokens_total = 0;  // prompt + generated, bounds its page tables
  std::vector<TokenId> replayed;       // end of the prompt that was generated before (recovery): counts as generated
  // Length of the whole prompt, replayed ids included; lets prefill skip the upper layers of rows that nothing later
  // depends on (exact). 0 = unknown: every row runs through all layers.
  std::uint32_t prompt_tokens = 0;
};

// Feeds prompt tokens at positions [start, start + tokens.size()). `sample` on the last chunk: emits the first
// generated token.
struct PrefillWork {
  SequenceId id = 0;
  std::uint32_t start = 0;
  std::vector<TokenId> tokens;
  bool sample = false;
  std::uint32_t next_drafts = 0;  // with `sample`: drafts to prepare for the first decode step
};

// Continues a sequence whose last sampled token is inside the engine; verifies at most `drafts` drafts (0 = plain
// decode). `next_drafts`: how many drafts to prepare for the step after this one.
struct DecodeWork {
  SequenceId id = 0;
  std::uint32_t drafts = 0;
  std::uint32_t next_drafts = 0;
};

struct StepPlan {
  std::uint64_t step = 0;
  std::vector<SequenceId> close;  // done before everything else
  std::vector<SequenceOpen> open;
  std::vector<PrefillWork> prefill;
  std::vector<DecodeWork> decode;
  // A hash over everything above; ranks that compute another one stop instead of running different steps.
  std::uint64_t hash() const noexcept;
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct SampledToken {
  TokenId id = 0;
  float logprob = 0;              // log-softmax of the model's own logits; 0 when not asked for
  std::vector<TokenLogprob> top;  // top_logprobs entries, best first
};

struct LaneResult {
  SequenceId id = 0;
  std::uint32_t length = 0;           // positions fed and kept so far
  std::vector<SampledToken> emitted;  // 0 (unfinished prefill), 1, or up to drafts + 1 tokens
  std::uint32_t drafted = 0;          // drafts verified in this step
  std::uint32_t accepted = 0;
  std::string error;  // not empty: this sequence is dead, the others are fine
};

// What one rank's Engram tables did for a step.
struct EngramUse {
  std::uint64_t rows = 0;        // looked up, positions without rows excluded
  std::uint64_t cache_hits = 0;  // of these, found in the row cache
  double waited_seconds = 0;     // that the step was held up for rows; 0: all came in time
};

struct StepResult {
  std::uint64_t step = 0;
  std::uint64_t plan_hash = 0;
  std::vector<LaneResult> lanes;
  double seconds = 0;
  EngramUse engram;
};

}  // namespace tandem::gpu
