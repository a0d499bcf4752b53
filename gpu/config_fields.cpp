// Every message names the file, the full key and both what was found and what was expected.
#include "gpu/config_fields.hpp"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

namespace tandem::gpu {
namespace {

namespace json = boost::json;

// A value as it appears in a message: whole if short.
std::string shown(const json::value& value) {
  constexpr std::size_t most = 60;
  std::string text = json::serialize(value);
  if (text.size() > most) text = text.substr(0, most) + "...";
  return text;
}

std::optional<std::int64_t> as_integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  return std::nullopt;  // an uint64 here is above every limit that we have
}

}  // namespace

ConfigFields::ConfigFields(const json::object& object, std::string where, std::string section)
    : object_(object), where_(std::move(where)), section_(std::move(section)) {}

bool ConfigFields::has(std::string_view key) const {
  const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value != nullptr && !value->is_null();
}

void ConfigFields::fail(std::string_view key, std::string found, std::string expected) {
  if (error_) return;
  const std::string path = section_.empty() ? std::string(key) : section_ + "." + std::string(key);
  error_ = Error{ErrorCode::bad_config, where_ + ": " + path, std::move(found), std::move(expected)};
}

void ConfigFields::adopt(const ConfigFields& other) {
  if (!error_) error_ = other.error_;
}

const json::value* ConfigFields::find(std::string_view key) {
  if (!has(key)) {
    fail(key, "absent", "a value");
    return nullptr;
  }
  return object_.if_contains(json::string_view(key.data(), key.size()));
}

std::int64_t ConfigFields::checked(std::string_view key, const json::value& value, IntRange range) {
  const std::optional<std::int64_t> number = as_integer(value);
  if (number && *number >= range.low && *number <= range.high) return *number;
  fail(key, shown(value), fmt::format("an integer in {}..{}", range.low, range.high));
  return range.low;
}

std::int64_t ConfigFields::long_integer(std::string_view key, IntRange range) {
  const json::value* value = find(key);
  return value == nullptr ? range.low : checked(key, *value, range);
}

int ConfigFields::integer(std::string_view key, IntRange range) {
  return static_cast<int>(long_integer(key, range));
}

int ConfigFields::integer_or(std::string_view key, int fallback, IntRange range) {
  return has(key) ? integer(key, range) : fallback;
}

std::vector<std::int64_t> ConfigFields::long_integers(std::string_view key, IntRange range, std::size_t most) {
  std::vector<std::int64_t> result;
  const json::value* value = find(key);
  if (value == nullptr) return result;
  const json::array* list = value->if_array();
  if (list == nullptr || list->size() > most) {
    fail(key, shown(*value), fmt::format("a list of at most {} integers", most));
    return result;
  }
  for (const json::value& element : *list) result.push_back(checked(key, element, range));
  return result;
}

std::vector<int> ConfigFields::integers(std::string_view key, IntRange range, std::size_t most) {
  const std::vector<std::int64_t> wide = long_integers(key, range, most);
  return {wide.begin(), wide.end()};
}

double ConfigFields::number(std::string_view key, double low, double high) {
  const json::value* value = find(key);
  if (value == nullptr) return low;
  const double number = value->is_number() ? value->to_number<double>() : std::numeric_limits<double>::quiet_NaN();
  if (number >= low && number <= high) return number;
  fail(key, shown(*value), fmt::format("a number in {:g}..{:g}", low, high));
  return low;
}

double ConfigFields::number_or(std::string_view key, double fallback, double low, double high) {
  return has(key) ? number(key, low, high) : fallback;
}

std::string ConfigFields::text(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_string()) fail(key, shown(*value), "a string");
  return value->is_string() ? std::string(value->get_string()) : std::string();
}

void ConfigFields::require(std::string_view key, std::string_view expected) {
  const std::string found = text(key);
  if (found != expected) fail(key, fmt::format("\"{}\"", found), fmt::format("\"{}\"", expected));
}

void ConfigFields::require_flag(std::string_view key, bool flag) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_bool() || value->get_bool() != flag) fail(key, shown(*value), flag ? "true" : "false");
}

const json::object* ConfigFields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) fail(key, shown(*value), "an object");
  return value->if_object();
}

}  // namespace tandem::gpu
