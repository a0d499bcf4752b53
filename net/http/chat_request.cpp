// JSON to job in four steps: body, shared fields, conversation, prompt ids.
#include "net/http/chat_request.hpp"

#include "net/http/json_body.hpp"
#include "net/http/legacy_functions.hpp"
#include "net/http/length_limit.hpp"
#include "net/http/request_id.hpp"
#include "net/text/call_markup.hpp"
#include "net/text/json_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem::net::http {
namespace {

using text::Markup;

gpu::TokenId engine_id(text::TokenId id) {
  return static_cast<gpu::TokenId>(id);
}

ApiError no_such_model(const ApiContext& context, const std::string& model) {
  return {404,
          fmt::format("The model `{}` does not exist. This server has: {}.", model,
                      fmt::join(context.options.model_names, ", ")),
          "model", "model_not_found", 0};
}

// The ids after which the model's turn is over.
std::vector<gpu::TokenId> stop_ids(const text::Tokenizer& tokenizer, const RequestFields& fields) {
  std::vector<gpu::TokenId> ids = fields.stop_ids;
  if (!fields.ignores_eos)
    for (const Markup markup : {Markup::eos, Markup::user, Markup::system, Markup::assistant, Markup::bos})
      if (const auto id = tokenizer.id(markup)) ids.push_back(engine_id(*id));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// The names of a choice among several tools are the model's to write: only "any of them" can be held to.
std::optional<text::RequestError> judge_tool_choice(const text::ChatRequest& chat) {
  const std::size_t allowed = chat.tool_choice.allowed.size();
  const bool is_one = allowed == 1 && chat.tool_choice.mode == text::ToolMode::required;
  if (allowed == 0 || allowed == chat.tools.size() || is_one) return std::nullopt;
  return text::RequestError{400, "tool_choice", "unsupported_value",
                            "tool_choice.allowed_tools cannot be enforced for this choice of tools; send only the "
                            "tools that may be called"};
}

std::optional<text::RequestError> judge_promises(const text::ChatRequest& chat) {
  if (auto error = judge_tool_choice(chat)) return error;
  if (chat.format.kind != text::FormatKind::json_schema) return std::nullopt;
  return text::judge_schema({chat.format.schema, chat.format.is_strict}, "response_format");
}

// The ids that an answer with a required call begins with, behind its reasoning.
text::RequestResult<std::vector<gpu::TokenId>> call_opening(const text::ChatRequest& chat,
                                                            const text::Tokenizer& tokenizer) {
  if (chat.tool_choice.mode != text::ToolMode::required) return std::vector<gpu::TokenId>{};
  const text::Tool* only = nullptr;
  if (chat.tool_choice.allowed.size() == 1) only = text::find_tool(chat.tools, chat.tool_choice.allowed.front());
  if (chat.tools.size() == 1) only = &chat.tools.front();
  text::SegmentList segments;
  text::write_call_opening(segments, only);
  auto ids = text::tokenize(segments, tokenizer);
  if (!ids) return ids.error();
  return std::vector<gpu::TokenId>(ids->begin(), ids->end());
}

// Reads the conversation of `body`, which is freed on the way: it may hold megabytes.
std::optional<ApiError> read_conversation(const ApiContext& context, text::Json body, ChatJob& job) {
  if (auto refusal = check_text(context, text_bytes_of_messages(body), "messages")) return refusal;
  auto chat = text::ChatRequest::from_json(body, context.options.chat);
  if (!chat) return from_request_error(chat.error());
  body = text::Json{};
  job.chat = std::move(*chat);
  if (const auto error = judge_promises(job.chat)) return from_request_error(*error);
  const auto written = text::write_chat_prompt(job.chat);
  if (!written) return from_request_error(written.error());
  std::vector<text::Message>{}.swap(job.chat.messages);  // written into the prompt, needed no more
  if (auto refusal = check_text(context, text_bytes_of(*written), "messages")) return refusal;
  auto prompt = text::encode_prompt(*written, context.tokenizer, context.pool.stop_token());
  if (!prompt) return from_request_error(prompt.error());
  job.prompt = std::move(*prompt);
  auto opening = call_opening(job.chat, context.tokenizer);
  if (!opening) return from_request_error(opening.error());
  job.opening = std::move(*opening);
  return check_length(context, job.prompt.ids.size(), "messages");
}

}  // namespace

std::optional<ApiError> read_chat_job(const ApiContext& context, std::string_view body, ChatJob& job) {
  auto json = parse_body(body);
  if (!json) return from_request_error(json.error());
  if (const auto error = translate_legacy_functions(*json)) return from_request_error(*error);
  FieldBounds bounds;
  bounds.vocab_size = context.vocab_size(context.door.snapshot());
  bounds.choices_max = context.options.choices_max;
  auto fields = read_request_fields(*json, bounds);
  if (!fields) return from_request_error(fields.error());
  job.fields = std::move(*fields);
  job.model = job.fields.model.value_or(context.options.model_names.front());
  if (!context.serves(job.model)) return no_such_model(context, job.model);
  job.stop_ids = stop_ids(context.tokenizer, job.fields);
  job.seed = job.fields.seed ? static_cast<std::uint64_t>(*job.fields.seed) : random_bits();
  return read_conversation(context, std::move(*json), job);
}

actors::GenerationRequest generation_request(const ApiContext& context, const ChatJob& job, int choice,
                                             std::string trace_id) {
  actors::GenerationRequest request;
  request.trace_id = std::move(trace_id);
  request.prompt.assign(job.prompt.ids.begin(), job.prompt.ids.end());
  request.sampling = job.fields.sampling;
  request.sampling.seed = job.seed + static_cast<std::uint64_t>(choice);
  request.sampling.stop_ids = job.stop_ids;
  request.max_tokens = job.fields.max_tokens;
  request.stop_ids = job.stop_ids;
  const bool may_call = !job.chat.tools.empty() && job.chat.tool_choice.mode != text::ToolMode::none;
  if (const auto dsml = context.tokenizer.id(Markup::dsml); dsml && !may_call)
    request.sampling.forbidden.push_back(engine_id(*dsml));
  request.sampling.opening = job.opening;
  const auto think_close = context.tokenizer.id(Markup::think_close);
  if (job.prompt.start != text::ParserStart::reasoning || !think_close) return request;
  if (job.chat.thinking.token_budget) {
    constexpr std::uint64_t budget_max = std::numeric_limits<std::int32_t>::max();
    request.sampling.thinking_budget = static_cast<std::int32_t>(std::min(*job.chat.thinking.token_budget, budget_max));
  }
  if (job.chat.thinking.token_budget || !job.opening.empty()) request.sampling.think_end_id = engine_id(*think_close);
  return request;
}

text::AnswerContract answer_contract(const ChatJob& job) {
  const bool needs_call = job.chat.tool_choice.mode == text::ToolMode::required;
  return {job.chat.format, needs_call ? &job.chat.tools : nullptr};
}

text::OutputOptions output_options(const ChatJob& job) {
  text::OutputOptions options;
  options.turn.start = job.prompt.start;
  if (job.chat.tool_choice.mode != text::ToolMode::none) options.turn.tools = &job.chat.tools;
  options.turn.allows_parallel_calls = job.chat.allows_parallel_calls;
  options.turn.stop = job.fields.stops;
  options.turn.includes_stop = job.fields.includes_stop;
  options.stop_token_ids.assign(job.fields.stop_ids.begin(), job.fields.stop_ids.end());
  options.ignores_end_of_turn = job.fields.ignores_eos;
  return options;
}

}  // namespace tandem::net::http
