// The two refusals that nearly every check ends in, and the defect report for an unchecked result.
#include "net/text/request_error.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace tandem::net::text {

void throw_exception_from_error(const RequestError& error, const boost::source_location& location) {
  throw std::logic_error("unchecked request error at " + location.to_string() + ": " + error.message);
}

RequestError invalid_value(std::string param, std::string message) {
  return {400, std::move(param), "invalid_value", std::move(message)};
}

RequestError wrong_type(std::string param, std::string_view expected, std::string_view found) {
  std::string message = fmt::format("{} must be {}, found {}", param, expected, found);
  return {400, std::move(param), "invalid_type", std::move(message)};
}

}  // namespace tandem::net::text
