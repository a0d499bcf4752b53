// Wire form of the engine's plans and results: gpu/ knows nothing of CAF, so their inspect functions live here.
#pragma once

#include <caf/meta/type_name.hpp>

#include "gpu/engine.hpp"
#include "gpu/step_plan.hpp"

namespace tandem::gpu {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, LogitBias& x) {
  return f(caf::meta::type_name("tandem::LogitBias"), x.token, x.bias);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, SamplingParams& x) {
  return f(caf::meta::type_name("tandem::SamplingParams"), x.temperature, x.top_p, x.top_k, x.min_p, x.presence_penalty,
           x.frequency_penalty, x.repetition_penalty, x.seed, x.top_logprobs, x.logit_bias, x.forbidden, x.stop_ids,
           x.min_tokens, x.thinking_budget, x.think_end_id, x.opening);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, SequenceOpen& x) {
  return f(caf::meta::type_name("tandem::SequenceOpen"), x.id, x.sampling, x.max_tokens_total, x.replayed,
           x.prompt_tokens);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, PrefillWork& x) {
  return f(caf::meta::type_name("tandem::PrefillWork"), x.id, x.start, x.tokens, x.sample, x.next_drafts);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, DecodeWork& x) {
  return f(caf::meta::type_name("tandem::DecodeWork"), x.id, x.drafts, x.next_drafts);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StepPlan& x) {
  return f(caf::meta::type_name("tandem::StepPlan"), x.step, x.close, x.open, x.prefill, x.decode);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, TokenLogprob& x) {
  return f(caf::meta::type_name("tandem::TokenLogprob"), x.id, x.logprob);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, SampledToken& x) {
  return f(caf::meta::type_name("tandem::SampledToken"), x.id, x.logprob, x.top);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, LaneResult& x) {
  return f(caf::meta::type_name("tandem::LaneResult"), x.id, x.length, x.emitted, x.drafted, x.accepted, x.error);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, EngramUse& x) {
  return f(caf::meta::type_name("tandem::EngramUse"), x.rows, x.cache_hits, x.waited_seconds);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StepResult& x) {
  return f(caf::meta::type_name("tandem::StepResult"), x.step, x.plan_hash, x.lanes, x.seconds, x.engram);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, EngineInfo& x) {
  return f(caf::meta::type_name("tandem::EngineInfo"), x.model_name, x.layers, x.vocab_size, x.max_positions,
           x.page_tokens, x.pages_total, x.lanes_max, x.chunk_rows_max, x.drafts_max, x.weight_bytes, x.cache_bytes,
           x.config_hash, x.bos_id, x.eos_id, x.pad_id);
}

}  // namespace tandem::gpu
