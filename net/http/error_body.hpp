// ApiError: a refusal or failure as the client sees it, in OpenAI's shape.
//
// status, type and code follow one table: 400 invalid_request_error, 401 authentication_error/invalid_api_key, 404
// not_found_error, 408 413 414 415 431 invalid_request_error, 429 rate_limit_error, 500 server_error/internal_error,
// 503 server_error/<reason>.
#pragma once

#include "actors/generation.hpp"
#include "net/http/message.hpp"
#include "net/text/request_error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::net::http {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;                // empty: null
  std::string code;                 // empty: null
  std::uint32_t retry_after_s = 0;  // 0: no header
  std::string_view type() const noexcept;
};

// Returns {"error":{"message","type","param","code"}}.
std::string error_json(const ApiError& error);

// Returns the complete answer; 401 gets www-authenticate, retry_after_s both retry headers, 500 says that a retry cures
// nothing.
Response error_response(const ApiError& error);

// Returns the error as the last events of a stream: one data event, then [DONE].
std::string error_events(const ApiError& error);

// Returns the meaning of an end that the client did not ask for: reason error, or cancelled by the server.
ApiError from_finish(const actors::Finish& finish);

// The 503 of a request that the stop came before.
ApiError stopping_error();

ApiError from_request_error(const text::RequestError& error);

// Returns the HTTP meaning of the actors' refusal. `prompt_param`: the field that holds the prompt.
ApiError from_rejection(const actors::Rejection& rejection, std::string_view prompt_param);

}  // namespace tandem::net::http
