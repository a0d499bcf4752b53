// What the front end asks of the actors and what it gets back: token ids only. No CAF type appears here, so that net/
// compiles fast.
//
// A front end submits a GenerationRequest through the FrontDoor together with a TokenSink. The sink hears exactly one
// of on_rejected(), or on_accepted() followed by any number of on_tokens() and exactly one on_finished(). A request
// that is ended before it was admitted hears on_finished() alone. Nothing follows a final call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/step_plan.hpp"

namespace tandem::actors {

using RequestId = std::uint64_t;  // unique per process life, never reused

struct GenerationRequest {
  std::string trace_id;              // x-request-id, for logs
  std::vector<gpu::TokenId> prompt;  // at least one id
  gpu::SamplingParams sampling;
  std::uint32_t max_tokens = 0;        // 0 = as many as fit; larger values are clamped to what fits the context
  std::vector<gpu::TokenId> stop_ids;  // generation ends after one of these; it is delivered as the last token
};

enum class RejectReason : std::uint8_t {
  prompt_too_long,  // prompt + 1 exceeds the context length: HTTP 400
  invalid,          // empty prompt, id outside the vocabulary: HTTP 400
  queue_full,       // count or total prompt tokens: HTTP 429
  not_ready,        // ranks are loading or being restored past the window: HTTP 503
  draining,         // the server is stopping: HTTP 503
};

struct Rejection {
  RejectReason reason = RejectReason::invalid;
  std::string message;
  std::uint32_t retry_after_s = 0;  // 0 = do not retry
};

enum class FinishReason : std::uint8_t {
  stop,       // a stop id was generated, or the front end found the answer complete
  length,     // max_tokens or the context is used up
  cancelled,  // the front end cancelled it or the sink said it is gone
  error,      // see Finish::error: rank lost for longer than the recovery window, or a dead sequence
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;      // prompt tokens that were not recomputed
  std::uint32_t completion_tokens = 0;  // stop id included
  std::uint32_t steps = 0;              // decode steps
  std::uint32_t drafted = 0;
  std::uint32_t accepted = 0;
};

struct Finish {
  FinishReason reason = FinishReason::stop;
  Usage usage;
  std::string error_code;  // "rank_lost", "internal_error", "draining"
  std::string error;
};

// Implemented by the front end. Called from actor threads: must not block, must not throw.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void on_accepted(std::uint32_t prompt_tokens) = 0;
  virtual void on_rejected(const Rejection& rejection) = 0;
  // Returns false if nobody listens any more: the request is then cancelled within one step.
  virtual bool on_tokens(std::vector<gpu::SampledToken> tokens) = 0;
  virtual void on_finished(const Finish& finish) = 0;
};

}  // namespace tandem::actors
