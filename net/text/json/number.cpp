// Integers are read as integers first, so that all 64 bits count; only a spelling with a point or exponent goes through
// a double.
#include "net/text/json/number.hpp"

#include <charconv>
#include <cmath>

namespace tandem::net::text {

std::optional<std::int64_t> to_integer(const JsonNumber& number) {
  const char* begin = number.text.data();
  const char* end = begin + number.text.size();
  std::int64_t integer = 0;
  const auto [stop, error] = std::from_chars(begin, end, integer);
  if (error == std::errc() && stop == end) return integer;
  constexpr double exact_limit = 9007199254740992.0;  // 2^53: above it doubles skip integers
  const auto value = to_double(number);
  if (!value || std::fabs(*value) > exact_limit || std::trunc(*value) != *value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<double> to_double(const JsonNumber& number) {
  double value = 0;
  const char* end = number.text.data() + number.text.size();
  const auto [stop, error] = std::from_chars(number.text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace tandem::net::text
