// The order of refusals: unknown path, preflight, method, key, encoding and type; all before the body is read.
#include "net/http/api.hpp"

#include "net/http/chat_route.hpp"
#include "net/http/cors.hpp"
#include "net/http/error_body.hpp"
#include "net/http/json_writer.hpp"
#include "net/http/metrics_text.hpp"
#include "net/http/models_route.hpp"
#include "net/http/status_json.hpp"
#include "net/http/tokenize_route.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <utility>

namespace tandem::net::http {
namespace {

bool is_json_type(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  return type.empty() || equal_ignoring_case(type, "application/json");
}

std::optional<Response> judge_content(const Request& request) {
  const std::string* encoding = request.find_header("content-encoding");
  if (encoding != nullptr && !equal_ignoring_case(*encoding, "identity"))
    return error_response({415, "compressed request bodies are not accepted", "", "", 0});
  const std::string* type = request.find_header("content-type");
  if (type != nullptr && !is_json_type(*type))
    return error_response({415, "the content type must be application/json", "", "", 0});
  return std::nullopt;
}

Response text_response(std::string body, std::string content_type) {
  Response response;
  response.body = std::move(body);
  response.content_type = std::move(content_type);
  return response;
}

Response root_page(const ServerOptions& options) {
  return text_response(fmt::format("Tandem {} serves {}.\n\n"
                                   "POST /v1/chat/completions\nGET  /v1/models\nPOST /tokenize, /detokenize\n"
                                   "GET  /health, /livez, /ping, /version, /status, /metrics\n",
                                   options.version, options.model_names.front()),
                       "text/plain; charset=utf-8");
}

Response livez_response(const ServerOptions& options) {
  JsonWriter json;
  json.begin_object().key("status").string("ok");
  if (!options.configuration.empty()) json.key("configuration").string(options.configuration);
  json.end_object();
  return text_response(json.take(), "application/json");
}

Response version_response(const ServerOptions& options) {
  JsonWriter json;
  json.begin_object().key("version").string(options.version).key("build").string(options.build).end_object();
  return text_response(json.take(), "application/json");
}

Response health_response(const actors::RuntimeSnapshot& snapshot) {
  Response response = text_response(health_json(snapshot), "application/json");
  if (snapshot.state != actors::NodeState::ready) response.status = 503;
  return response;
}

}  // namespace

HeadVerdict Api::admit(const Request& request) {
  HeadVerdict verdict;
  verdict.headers = cors_headers(request, context_.options.cors_origins);
  const RouteMatch match = match_route(request.path);
  verdict.refusal = judge(request, match);
  if (verdict.refusal) context_.counters.count_response(match.name, verdict.refusal->status);
  return verdict;
}

std::optional<Response> Api::judge(const Request& request, const RouteMatch& match) const {
  if (match.route == Route::unknown) return error_response({404, "there is no such path", "", "", 0});
  if (request.method == "OPTIONS")
    return preflight_response(request, context_.options.cors_origins, allowed_methods(match));
  const bool is_method_right =
      match.is_post ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!is_method_right) {
    Response response = error_response({405, fmt::format("this path answers {}", allowed_methods(match)), "", "", 0});
    response.headers.push_back({"allow", std::string(allowed_methods(match))});
    return response;
  }
  const bool is_open = !match.needs_key || (match.route == Route::metrics && context_.options.has_open_metrics);
  if (!is_open && !keys_.admits(request))
    return error_response({401, "a valid API key is needed: Authorization: Bearer KEY", "", "invalid_api_key", 0});
  return match.is_post ? judge_content(request) : std::nullopt;
}

Awaitable<void> Api::serve(Exchange& exchange) {
  const RouteMatch match = match_route(exchange.request().path);
  const auto begin = std::chrono::steady_clock::now();
  int status = 500;
  std::string failure;
  try {
    status = co_await dispatch(match, exchange);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (!failure.empty()) {
    spdlog::error("{} {}: {}", exchange.request().id, match.name, failure);
    const ApiError error{500, fmt::format("internal error, request {}", exchange.request().id), "", "internal_error",
                         0};
    Response response = error_response(error);
    if (exchange.has_begun())
      exchange.drop();  // an answer that broke off must not be taken for a whole one
    else
      co_await exchange.respond(std::move(response));
  }
  context_.counters.count_response(match.name, status);
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  spdlog::debug("{} {} {} {:.3f} s", exchange.request().id, match.name, status, seconds);
}

Awaitable<int> Api::dispatch(const RouteMatch& match, Exchange& exchange) {
  if (match.route == Route::chat) co_return co_await serve_chat(context_, exchange);
  Response response = co_await answer(match, exchange.request());
  const int status = response.status;
  co_await exchange.respond(std::move(response));
  co_return status;
}

Awaitable<Response> Api::answer(const RouteMatch& match, const Request& request) {
  const ServerOptions& options = context_.options;
  switch (match.route) {
    case Route::models:
      co_return list_models(context_);
    case Route::model:
      co_return show_model(context_, match.tail);
    case Route::tokenize:
      co_return co_await tokenize_request(context_, request);
    case Route::detokenize:
      co_return co_await detokenize_request(context_, request);
    case Route::health:
    case Route::ping:
      co_return health_response(context_.door.snapshot());
    case Route::livez:
      co_return livez_response(options);
    case Route::version:
      co_return version_response(options);
    case Route::status:
      co_return text_response(status_json(context_.door.snapshot()), "application/json");
    case Route::metrics:
      co_return text_response(
          metrics_text(context_.door.snapshot(), context_.counters.read(), options.model_names.front()),
          "text/plain; version=0.0.4; charset=utf-8");
    case Route::root:
      co_return root_page(options);
    case Route::chat:
    case Route::unknown:
      break;
  }
  co_return error_response({404, "there is no such path", "", "", 0});
}

Response Api::refuse(int status, std::string_view message) {
  context_.counters.count_response("transport", status);
  ApiError error{status, std::string(message), "", "", 0};
  if (status == 503) error.code = "overloaded";
  if (status == 503) error.retry_after_s = 1;
  return error_response(error);
}

}  // namespace tandem::net::http
