// The table of statuses, types and codes.
#include "net/http/error_body.hpp"

#include "net/http/json_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::net::http {

std::string_view ApiError::type() const noexcept {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 && status != 501 ? "server_error" : "invalid_request_error";
  }
}

std::string error_json(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").string(error.message).key("type").string(error.type());
  json.key("param").string_or_null(error.param).key("code").string_or_null(error.code);
  json.end_object().end_object();
  return json.take();
}

Response error_response(const ApiError& error) {
  Response response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status == 401) response.headers.push_back({"www-authenticate", "Bearer"});
  if (error.status == 500) response.headers.push_back({"x-should-retry", "false"});
  if (error.retry_after_s > 0) {
    response.headers.push_back({"retry-after", fmt::format("{}", error.retry_after_s)});
    response.headers.push_back({"retry-after-ms", fmt::format("{}", std::uint64_t{error.retry_after_s} * 1000)});
  }
  return response;
}

std::string error_events(const ApiError& error) {
  return fmt::format("data: {}\n\ndata: [DONE]\n\n", error_json(error));
}

ApiError stopping_error() {
  return {503, "The server is stopping.", "", "draining", 1};
}

ApiError from_request_error(const text::RequestError& error) {
  // The contract names few codes; the ones that only repeat "bad field" are null on the wire.
  const bool is_plain =
      error.code == "invalid_value" || error.code == "invalid_type" || error.code == "missing_required_parameter";
  return {error.status, error.message, error.param, is_plain ? "" : error.code, 0};
}

ApiError from_finish(const actors::Finish& finish) {
  const std::string message = finish.error.empty() ? "The request could not be completed." : finish.error;
  if (finish.reason == actors::FinishReason::cancelled) return stopping_error();
  const bool is_defect = finish.error_code.empty() || finish.error_code == "internal_error";
  return {is_defect ? 500 : 503, message, "", is_defect ? "internal_error" : finish.error_code, is_defect ? 0U : 1U};
}

ApiError from_rejection(const actors::Rejection& rejection, std::string_view prompt_param) {
  using actors::RejectReason;
  switch (rejection.reason) {
    case RejectReason::prompt_too_long:
      return {400, rejection.message, std::string(prompt_param), "context_length_exceeded", 0};
    case RejectReason::invalid:
      return {400, rejection.message, std::string(prompt_param), "", 0};
    case RejectReason::queue_full:
      return {429, rejection.message, "", "rate_limit_exceeded", std::clamp(rejection.retry_after_s, 1U, 60U)};
    case RejectReason::not_ready:
      return {503, rejection.message, "", "loading", std::max(rejection.retry_after_s, 1U)};
    case RejectReason::draining:
      return {503, rejection.message, "", "draining", std::max(rejection.retry_after_s, 1U)};
  }
  return {500, "an unknown refusal", "", "internal_error", 0};
}

}  // namespace tandem::net::http
