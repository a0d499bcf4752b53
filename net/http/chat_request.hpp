// A chat completion request, understood: everything that is known before the actors hear of it.
#pragma once

#include "actors/generation.hpp"
#include "net/http/api_context.hpp"
#include "net/http/error_body.hpp"
#include "net/http/request_fields.hpp"
#include "net/text/answer_contract.hpp"
#include "net/text/chat.hpp"
#include "net/text/output_parser.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http {

struct ChatJob {
  RequestFields fields;
  std::string model;       // that was asked for, or the first one
  text::ChatRequest chat;  // holds the tools that the output parsers point to
  text::Prompt prompt;
  std::vector<gpu::TokenId> opening;   // of a call that the answer must hold; empty: it is free
  std::vector<gpu::TokenId> stop_ids;  // end of turn (unless ignored) and the request's own
  std::uint64_t seed = 0;              // of choice 0; choice k has seed + k
};

// Parses, validates and encodes. CPU work, up to seconds for the longest prompts: call it on the work pool.
// Returns what is wrong, or nothing and fills `job`.
std::optional<ApiError> read_chat_job(const ApiContext& context, std::string_view body, ChatJob& job);

// Returns what the actors are asked for choice `choice`. `trace_id`: the request id.
actors::GenerationRequest generation_request(const ApiContext& context, const ChatJob& job, int choice,
                                             std::string trace_id);

// Returns how the answer's tokens are to be read. `job` must outlive the parser.
text::OutputOptions output_options(const ChatJob& job);

// Returns what the answer must keep. `job` must outlive it.
text::AnswerContract answer_contract(const ChatJob& job);

}  // namespace tandem::net::http
