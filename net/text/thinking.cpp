// Each switch is looked up where it may stand; null counts as absent everywhere.
#include "net/text/thinking.hpp"

#include "net/text/json/number.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace tandem::net::text {
namespace {

const Json* find_inside(const Json& body, std::string_view object, std::string_view key) {
  const Json* outer = body.find_given(object);
  return outer == nullptr ? nullptr : outer->find_given(key);
}

const Json* template_argument(const Json& body, std::string_view key) {
  return find_inside(body, "chat_template_kwargs", key);
}

bool is_text(const Json* value, std::string_view text) {
  return value != nullptr && value->if_string() != nullptr && *value->if_string() == text;
}

// The value of a switch: absent, on or off.
using Switch = std::optional<bool>;

RequestResult<Switch> read_flag(const Json* value, const char* param) {
  if (value == nullptr) return Switch();
  if (const bool* flag = value->if_bool()) return Switch(*flag);
  return wrong_type(param, "a boolean", value->type_name());
}

// A switch that is one of two words.
RequestResult<Switch> read_word(const Json* value, const char* param, const char* on, const char* off) {
  if (value == nullptr) return Switch();
  if (is_text(value, on)) return Switch(true);
  if (is_text(value, off)) return Switch(false);
  return invalid_value(param, fmt::format("{} must be \"{}\" or \"{}\"", param, on, off));
}

// chat_template_kwargs has two spellings of one switch: true if either is true.
RequestResult<Switch> read_template_flags(const Json& body) {
  Switch result;
  for (const char* key : {"thinking", "enable_thinking"}) {
    const auto flag = read_flag(template_argument(body, key), "chat_template_kwargs");
    if (!flag) return flag.error();
    if (flag->has_value()) result = result.value_or(false) || **flag;
  }
  return result;
}

RequestResult<bool> read_is_on(const Json& body, const ReasoningConfig& config) {
  using Reader = RequestResult<Switch> (*)(const Json&);
  static constexpr std::array<Reader, 5> readers = {
      read_template_flags,
      [](const Json& b) {
        return read_word(template_argument(b, "thinking_mode"), "chat_template_kwargs", "thinking", "chat");
      },
      [](const Json& b) { return read_word(find_inside(b, "thinking", "type"), "thinking", "enabled", "disabled"); },
      [](const Json& b) { return read_flag(b.find_given("enable_thinking"), "enable_thinking"); },
      [](const Json& b) { return read_flag(find_inside(b, "reasoning", "enabled"), "reasoning"); },
  };
  Switch first;
  for (const Reader reader : readers) {  // also those that no longer decide: a wrong type is an error wherever it is
    const auto found = reader(body);
    if (!found) return found.error();
    if (!first) first = *found;
  }
  return first.value_or(config.is_on_by_default);
}

std::string accepted_efforts(const ReasoningConfig& config) {
  std::string words = "none";
  for (const EffortWord& entry : config.efforts) words += ", " + entry.word;
  return words;
}

std::optional<std::int64_t> effort_number(const Json& value) {
  if (const JsonNumber* number = value.if_number()) return to_integer(*number);
  const std::string* text = value.if_string();
  if (text == nullptr || text->empty()) return std::nullopt;
  std::int64_t parsed = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, parsed);
  if (error != std::errc() || stop != end) return std::nullopt;
  return parsed;
}

std::optional<std::string_view> wrong_object(const Json& body) {
  for (const std::string_view key : {"chat_template_kwargs", "thinking", "reasoning"}) {
    const Json* value = body.find_given(key);
    if (value != nullptr && value->if_object() == nullptr) return key;
  }
  return std::nullopt;
}

RequestResult<std::optional<std::uint64_t>> read_budget(const Json& body) {
  const Json* value = body.find_given("thinking_token_budget");
  if (value == nullptr) value = template_argument(body, "thinking_token_budget");
  if (value == nullptr) return std::optional<std::uint64_t>();
  const JsonNumber* number = value->if_number();
  const auto budget = number == nullptr ? std::nullopt : to_integer(*number);
  if (!budget || *budget < 0) {
    const std::string found = number == nullptr ? std::string(value->type_name()) : number->text.substr(0, 40);
    return invalid_value("thinking_token_budget",
                         fmt::format("thinking_token_budget must be an integer from 0 to {}, found {}",
                                     std::numeric_limits<std::int64_t>::max(), found));
  }
  return std::optional<std::uint64_t>(static_cast<std::uint64_t>(*budget));
}

}  // namespace

RequestResult<int> read_effort(const Json& value, const ReasoningConfig& config) {
  for (const EffortWord& entry : config.efforts) {
    if (is_text(&value, entry.word)) return entry.effort;
  }
  const auto number = effort_number(value);
  if (number && *number >= effort_min && *number <= effort_max) return static_cast<int>(*number);
  return invalid_value("reasoning_effort", fmt::format("reasoning_effort must be one of {} or an integer from {} to {}",
                                                       accepted_efforts(config), effort_min, effort_max));
}

RequestResult<Thinking> read_thinking(const Json& body, const ReasoningConfig& config) {
  if (const auto key = wrong_object(body)) {
    return wrong_type(std::string(*key), "an object", body.find(*key)->type_name());
  }
  const auto is_on = read_is_on(body, config);
  if (!is_on) return is_on.error();
  const auto keeps = read_flag(template_argument(body, "drop_thinking"), "chat_template_kwargs");
  if (!keeps) return keeps.error();
  const auto budget = read_budget(body);
  if (!budget) return budget.error();

  Thinking thinking{*is_on, config.default_effort, !keeps->value_or(true), *budget};
  bool is_chosen = false;
  const std::array<const Json*, 3> places = {template_argument(body, "reasoning_effort"),
                                             body.find_given("reasoning_effort"),
                                             find_inside(body, "reasoning", "effort")};
  for (const Json* place : places) {
    if (place == nullptr || is_text(place, "default")) continue;
    if (is_text(place, "none")) {
      thinking.is_on = false;
      continue;
    }
    const auto effort = read_effort(*place, config);
    if (!effort) return effort.error();
    if (!is_chosen) thinking.effort = *effort;
    is_chosen = true;
  }
  return thinking;
}

}  // namespace tandem::net::text
