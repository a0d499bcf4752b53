// Both run on the work pool: a body may hold megabytes.
#include "net/http/tokenize_route.hpp"

#include "net/http/error_body.hpp"
#include "net/http/field_reader.hpp"
#include "net/http/json_body.hpp"
#include "net/http/json_writer.hpp"
#include "net/http/legacy_functions.hpp"
#include "net/http/length_limit.hpp"
#include "net/http/models_route.hpp"
#include "net/text/detokenizer.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace tandem::net::http {
namespace {

using text::Json;
using text::RequestResult;
using text::TokenId;

// Both ways return what is wrong, or nothing and fill `ids`.

std::optional<ApiError> encode_text(const ApiContext& context, FieldReader& reader, std::vector<TokenId>& ids) {
  const auto prompt = reader.string("prompt");
  const bool adds_bos = reader.boolean("add_special_tokens").value_or(true);
  if (reader.error()) return from_request_error(*reader.error());
  if (!prompt) return ApiError{400, "prompt or messages is required", "prompt", "", 0};
  if (auto refusal = check_text(context, prompt->size(), "prompt")) return refusal;
  const auto bos = context.tokenizer.id(text::Markup::bos);
  const std::string_view bos_text = text::markup_text(text::Markup::bos);
  if (adds_bos && bos && !prompt->starts_with(bos_text)) ids.push_back(*bos);
  const std::vector<TokenId> rest = context.tokenizer.encode_raw(*prompt, context.pool.stop_token());
  ids.insert(ids.end(), rest.begin(), rest.end());
  return check_length(context, ids.size(), "prompt");
}

std::optional<ApiError> encode_chat(const ApiContext& context, Json& body, std::vector<TokenId>& ids) {
  if (const auto error = translate_legacy_functions(body)) return from_request_error(*error);
  if (auto refusal = check_text(context, text_bytes_of_messages(body), "messages")) return refusal;
  const auto chat = text::ChatRequest::from_json(body, context.options.chat);
  if (!chat) return from_request_error(chat.error());
  const auto written = text::write_chat_prompt(*chat);
  if (!written) return from_request_error(written.error());
  if (auto refusal = check_text(context, text_bytes_of(*written), "messages")) return refusal;
  auto prompt = text::encode_prompt(*written, context.tokenizer, context.pool.stop_token());
  if (!prompt) return from_request_error(prompt.error());
  ids = std::move(prompt->ids);
  return check_length(context, ids.size(), "messages");
}

void add_token_strings(JsonWriter& json, const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  json.begin_array();
  for (const TokenId id : ids) {
    std::string visible;
    text::Utf8Stream stream;
    stream.push(tokenizer.token_bytes(id).value_or(""), visible);
    stream.flush(visible);
    json.string(visible);
  }
  json.end_array();
}

Response tokenize_now(const ApiContext& context, const Request& request) {
  auto body = parse_body(request.body);
  if (!body) return error_response(from_request_error(body.error()));
  FieldReader reader{*body};
  const auto model = reader.string("model");
  const bool wants_strings = reader.boolean("return_token_strs").value_or(false);
  if (reader.error()) return error_response(from_request_error(*reader.error()));
  if (model && !context.serves(*model)) return model_not_found(context, *model);
  const bool is_chat = body->find_given("messages") != nullptr;
  std::vector<TokenId> ids;
  const auto refusal = is_chat ? encode_chat(context, *body, ids) : encode_text(context, reader, ids);
  if (refusal) return error_response(*refusal);
  JsonWriter json;
  json.begin_object().key("count").integer(ids.size());
  json.key("max_model_len").integer(context.door.snapshot().engine.max_positions);
  json.key("tokens").begin_array();
  for (const TokenId id : ids) json.integer(id);
  json.end_array().key("token_strs");
  if (wants_strings)
    add_token_strings(json, context.tokenizer, ids);
  else
    json.null();
  json.end_object();
  Response response;
  response.body = json.take();
  return response;
}

RequestResult<std::vector<TokenId>> read_tokens(const Json& body) {
  FieldReader reader{body};
  const Json* list = reader.array("tokens");
  if (reader.error()) return *reader.error();
  if (list == nullptr) return text::RequestError{400, "tokens", "", "tokens is required"};
  std::vector<TokenId> ids;
  for (const Json& value : *list->if_array()) {
    const text::JsonNumber* number = value.if_number();
    const auto id = number != nullptr ? to_integer(number->text) : std::nullopt;
    if (!id || *id < 0 || *id > INT32_MAX)
      return text::invalid_value("tokens", fmt::format("tokens[{}] must be a token id", ids.size()));
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Response detokenize_now(const ApiContext& context, const Request& request) {
  const auto body = parse_body(request.body);
  if (!body) return error_response(from_request_error(body.error()));
  const auto ids = read_tokens(*body);
  if (!ids) return error_response(from_request_error(ids.error()));
  if (const auto refusal = check_length(context, ids->size(), "tokens")) return error_response(*refusal);
  const auto bytes = context.tokenizer.decode(*ids, text::AddedTokenText::written);
  if (!bytes) return error_response({400, fmt::format("tokens: {}", bytes.error().message()), "tokens", "", 0});
  std::string prompt;
  text::Utf8Stream stream;
  stream.push(*bytes, prompt);
  stream.flush(prompt);
  JsonWriter json;
  json.begin_object().key("prompt").string(prompt).end_object();
  Response response;
  response.body = json.take();
  return response;
}

Awaitable<Response> on_pool(const ApiContext& context, const Request& request,
                            Response (*work)(const ApiContext&, const Request&)) {
  Response response;
  std::function<void()> job = [&] {
    response = work(context, request);
    return_memory(request.body.size());
  };
  const bool is_done = co_await context.pool.run(std::move(job));
  if (!is_done) co_return error_response(stopping_error());
  co_return response;
}

}  // namespace

Awaitable<Response> tokenize_request(const ApiContext& context, const Request& request) {
  return on_pool(context, request, tokenize_now);
}

Awaitable<Response> detokenize_request(const ApiContext& context, const Request& request) {
  return on_pool(context, request, detokenize_now);
}

}  // namespace tandem::net::http
