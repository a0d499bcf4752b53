// Names of the error codes and the one sentence that every error prints as.
#include "engram/error.hpp"

#include <stdexcept>

namespace tandem {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::io:
      return "io";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::bad_format:
      return "bad_format";
    case ErrorCode::bad_config:
      return "bad_config";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::resource:
      return "resource";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

std::string Error::message() const {
  std::string text = where;
  if (!found.empty()) text += (text.empty() ? "" : ": ") + found;
  if (!expected.empty()) text += (text.empty() ? "expected " : ", expected ") + expected;
  return text;
}

void throw_exception_from_error(const Error& error, const boost::source_location& location) {
  throw std::logic_error("unchecked error at " + location.to_string() + ": " + error.message());
}

}  // namespace tandem
