// The refusal of a request: what becomes an HTTP error body, without knowing HTTP.
//
// Everything in net/text that judges a client's input returns a RequestResult; net/http turns the error into each
// surface's shape. `param` names the field in the client's own terms ("messages[2].content"), so that a person can find
// it.
#pragma once

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::net::text {

// Not an aggregate: in C++20 it could then be made from its first member alone, and a RequestResult<int> would be
// ambiguous.
struct RequestError {
  RequestError() = default;
  RequestError(int status_, std::string param_, std::string code_, std::string message_)
      : status(status_), param(std::move(param_)), code(std::move(code_)), message(std::move(message_)) {}

  int status = 400;
  std::string param;                   // the field at fault; empty when no single field is
  std::string code = "invalid_value";  // machine-readable: "invalid_value", "missing_required_parameter", ...
  std::string message;                 // one sentence for a person
};

template <class T>
using RequestResult = boost::system::result<T, RequestError>;

// Called by boost::system::result when value() is taken from an error: a defect, reported as std::logic_error.
[[noreturn]] void throw_exception_from_error(const RequestError& error, const boost::source_location& location);

// Returns a 400 with code "invalid_value".
RequestError invalid_value(std::string param, std::string message);

// Returns a 400 that says which type was expected: "messages must be an array, found string".
RequestError wrong_type(std::string param, std::string_view expected, std::string_view found);

}  // namespace tandem::net::text
