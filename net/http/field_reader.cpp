// One function a type: absent, wrong type, out of range, or the value.
#include "net/http/field_reader.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace tandem::net::http {

std::optional<std::int64_t> to_integer(std::string_view number) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc{} && end == number.data() + number.size()) return value;
  if (error == std::errc::result_out_of_range) return std::nullopt;
  const double real = to_double(number);
  constexpr double exact_limit = 9007199254740992.0;  // 2^53: every integer below has its own double
  if (!(std::abs(real) <= exact_limit) || std::trunc(real) != real) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

double to_double(std::string_view number) {
  return std::strtod(std::string(number).c_str(), nullptr);
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const text::Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (const bool* given = value->if_bool()) return *given;
  fail(text::wrong_type(path(name), "a boolean", value->type_name()));
  return std::nullopt;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, IntegerRange range) {
  const text::Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const text::JsonNumber* number = value->if_number();
  if (number == nullptr) {
    fail(text::wrong_type(path(name), "an integer", value->type_name()));
    return std::nullopt;
  }
  const auto integer = to_integer(number->text);
  if (integer && *integer >= range.low && *integer <= range.high) return integer;
  fail(text::invalid_value(path(name), fmt::format("{} must be an integer from {} to {}, found {}", path(name),
                                                   range.low, range.high, number->text.substr(0, 40))));
  return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name, NumberRange range) {
  const text::Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const text::JsonNumber* number = value->if_number();
  if (number == nullptr) {
    fail(text::wrong_type(path(name), "a number", value->type_name()));
    return std::nullopt;
  }
  const double real = to_double(number->text);
  const bool is_above = range.excludes_low ? real > range.low : real >= range.low;
  if (is_above && real <= range.high) return real;
  fail(text::invalid_value(path(name), fmt::format("{} must be {} {} and at most {}, found {}", path(name),
                                                   range.excludes_low ? "above" : "at least", range.low, range.high,
                                                   number->text.substr(0, 40))));
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(std::string_view name) {
  const text::Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (const std::string* given = value->if_string()) return *given;
  fail(text::wrong_type(path(name), "a string", value->type_name()));
  return std::nullopt;
}

const text::Json* FieldReader::object(std::string_view name) {
  const text::Json* value = any(name);
  if (value == nullptr || value->if_object() != nullptr) return value;
  fail(text::wrong_type(path(name), "an object", value->type_name()));
  return nullptr;
}

const text::Json* FieldReader::array(std::string_view name) {
  const text::Json* value = any(name);
  if (value == nullptr || value->if_array() != nullptr) return value;
  fail(text::wrong_type(path(name), "an array", value->type_name()));
  return nullptr;
}

}  // namespace tandem::net::http
