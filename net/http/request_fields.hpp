// The fields that every generating surface shares: sampling, limits, stops, what to deliver. Validated, not interpreted
// further.
#pragma once

#include "gpu/step_plan.hpp"
#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::net::http {

struct FieldBounds {
  std::int64_t vocab_size = 0;  // ids in logit_bias and stop_token_ids lie below it
  int choices_max = 16;
  std::size_t logit_bias_max = 1024;
  std::size_t stop_ids_max = 128;
};

struct RequestFields {
  std::optional<std::string> model;
  gpu::SamplingParams sampling;  // without seed, ids of markup and stop ids
  std::optional<std::int64_t> seed;
  std::uint32_t max_tokens = 0;  // 0: what fits
  std::vector<std::string> stops;
  std::vector<gpu::TokenId> stop_ids;
  bool ignores_eos = false;
  bool includes_stop = false;  // include_stop_str_in_output
  int choices = 1;
  bool has_logprobs = false;
  bool is_stream = false;
  bool includes_usage = false;         // stream_options.include_usage
  bool includes_usage_always = false;  // stream_options.continuous_usage_stats
  bool hides_reasoning = false;        // reasoning.exclude, include_reasoning: false
};

// Reads them from a chat request. Errors: 400 naming the field; code unsupported_value for known fields that would
// change the answer and that this server does not have.
text::RequestResult<RequestFields> read_request_fields(const text::Json& body, const FieldBounds& bounds);

}  // namespace tandem::net::http
