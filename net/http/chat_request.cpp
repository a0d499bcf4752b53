// JSON to job in four steps: body, shared fields, conversation, prompt ids.
#include "net/http/chat_request.hpp"

#include "net/http/json_body.hpp"
#include "net/http/legacy_functions.hpp"
#include "net/http/request_id.hpp"

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

ApiError too_long(std::int64_t limit, const std::string& tokens) {
  return {400,
          fmt::format("This model's maximum context length is {} tokens. However, your messages resulted in {} tokens.",
                      limit, tokens),
          "messages", "context_length_exceeded", 0};
}

std::optional<ApiError> check_length(const ApiContext& context, std::size_t prompt_tokens) {
  const std::int64_t limit = context.door.snapshot().engine.max_positions;
  if (limit <= 0 || static_cast<std::int64_t>(prompt_tokens) + 1 <= limit) return std::nullopt;
  return too_long(limit, std::to_string(prompt_tokens));
}

// No token is longer than B bytes: a text beyond B * limit bytes cannot fit and is not worth the minutes of tokenising
// it.
std::optional<ApiError> check_text(const ApiContext& context, const text::ChatRequest& chat) {
  const std::int64_t limit = context.door.snapshot().engine.max_positions;
  const auto written = text::write_chat_prompt(chat);
  if (limit <= 0 || !written) return std::nullopt;
  std::size_t bytes = 0;
  for (const auto& segment : written->segments.all())
    if (const auto* plain = std::get_if<std::string>(&segment)) bytes += plain->size();
  const std::size_t tokens_min = bytes / std::max<std::size_t>(context.tokenizer.token_bytes_max(), 1);
  if (static_cast<std::int64_t>(tokens_min) < limit) return std::nullopt;
  return too_long(limit, fmt::format("at least {}", tokens_min));
}

}  // namespace

std::optional<ApiError> read_chat_job(const ApiContext& context, std::string_view body, ChatJob& job) {
  auto json = parse_body(body);
  if (!json) return from_request_error(json.error());
  translate_legacy_functions(*json);
  FieldBounds bounds;
  bounds.vocab_size = context.vocab_size(context.door.snapshot());
  bounds.choices_max = context.options.choices_max;
  auto fields = read_request_fields(*json, bounds);
  if (!fields) return from_request_error(fields.error());
  job.fields = std::move(*fields);
  if (job.fields.model.empty()) job.fields.model = context.options.model_names.front();
  if (!context.serves(job.fields.model)) return no_such_model(context, job.fields.model);
  auto chat = text::ChatRequest::from_json(*json, context.options.chat);
  if (!chat) return from_request_error(chat.error());
  job.chat = std::move(*chat);
  if (auto refusal = check_text(context, job.chat)) return refusal;
  auto prompt = text::encode_prompt(job.chat, context.tokenizer);
  if (!prompt) return from_request_error(prompt.error());
  job.prompt = std::move(*prompt);
  job.stop_ids = stop_ids(context.tokenizer, job.fields);
  job.seed = job.fields.seed ? static_cast<std::uint64_t>(*job.fields.seed) : random_bits();
  return check_length(context, job.prompt.ids.size());
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
  const auto think_close = context.tokenizer.id(Markup::think_close);
  if (job.chat.thinking.token_budget && job.prompt.start == text::ParserStart::reasoning && think_close) {
    constexpr std::uint64_t budget_max = std::numeric_limits<std::int32_t>::max();
    request.sampling.thinking_budget = static_cast<std::int32_t>(std::min(*job.chat.thinking.token_budget, budget_max));
    request.sampling.think_end_id = engine_id(*think_close);
  }
  return request;
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
