// Repairs are decided when a value ends, or at its beginning when only one outcome is possible (then it is streamed).
#include "net/text/call_arguments.hpp"

#include "net/text/json/parse.hpp"
#include "net/text/json/write.hpp"

#include <algorithm>
#include <utility>

namespace tandem::net::text {
namespace {

std::string_view trimmed(std::string_view text) {
  static constexpr std::string_view space = " \t\r\n";
  const std::size_t begin = std::min(text.find_first_not_of(space), text.size());
  const std::size_t end = text.find_last_not_of(space) + 1;
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string quoted(std::string_view text) {
  std::string out;
  write_json_string(out, text);
  return out;
}

}  // namespace

void CallArguments::begin(std::string key, std::optional<bool> is_string) {
  if (wrapper_) {
    write(*wrapper_);
    wrapper_.reset();
  }
  const JsonTypes types = types_of(key);
  current_ = Parameter{};
  current_.is_string = is_string.value_or(types.admits_string());
  current_.may_be_wrapper = keys_.empty() && may_be_wrapper(key);
  current_.is_dropped = !keys_.insert(key).second;
  current_.is_streamed =
      current_.is_string && types.admits_string() && !current_.is_dropped && !current_.may_be_wrapper;
  current_.key = std::move(key);
  if (!current_.is_streamed) return;
  write_key(current_.key);
  ready_.push_back('"');
}

void CallArguments::value(std::string_view text) {
  if (current_.is_dropped) return;
  if (current_.is_streamed) {
    write_json_string_body(ready_, text);
  } else {
    current_.raw += text;
  }
}

void CallArguments::end() {
  if (current_.is_dropped) return;
  if (current_.is_streamed) {
    ready_.push_back('"');
  } else if (current_.may_be_wrapper) {
    wrapper_ = std::exchange(current_, Parameter{});
  } else {
    write(current_);
  }
}

void CallArguments::finish() {
  if (wrapper_) {
    const auto value = parse_json(wrapper_->raw);
    if (value && is_wrapped_object(*value)) {
      ready_ += trimmed(wrapper_->raw);
      return;
    }
    write(*wrapper_);
  }
  ready_ += is_open_ ? "}" : "{}";
}

std::string CallArguments::take() {
  return std::exchange(ready_, {});
}

const Json* CallArguments::properties() const noexcept {
  const Json* properties = parameters_ == nullptr ? nullptr : parameters_->find_given("properties");
  return properties != nullptr && properties->if_object() != nullptr ? properties : nullptr;
}

JsonTypes CallArguments::types_of(std::string_view key) const {
  const Json* schema = properties() == nullptr ? nullptr : properties()->find(key);
  return schema == nullptr ? JsonTypes::unknown() : JsonTypes::of_schema(*schema);
}

bool CallArguments::may_be_wrapper(std::string_view key) const {
  return (key == "arguments" || key == "input") && properties() != nullptr && properties()->find(key) == nullptr;
}

bool CallArguments::is_wrapped_object(const Json& value) const {
  const JsonObject* object = value.if_object();
  return object != nullptr && std::all_of(object->begin(), object->end(), [&](const JsonMember& member) {
           return properties()->find(member.key) != nullptr;
         });
}

std::string CallArguments::value_json(const Parameter& parameter) const {
  const JsonTypes types = types_of(parameter.key);
  const std::string_view text = trimmed(parameter.raw);
  const bool is_plainly_string = parameter.is_string && types.admits_string();
  if (is_plainly_string) return quoted(parameter.raw);
  const auto value = parse_json(text);
  if (!value) return quoted(parameter.raw);
  if (parameter.is_string && !types.admits(*value)) return quoted(parameter.raw);
  if (!parameter.is_string && types.is_string_only() && value->if_string() == nullptr) return quoted(parameter.raw);
  return std::string(text);
}

void CallArguments::write_key(std::string_view key) {
  ready_ += is_open_ ? ", " : "{";
  is_open_ = true;
  write_json_string(ready_, key);
  ready_ += ": ";
}

void CallArguments::write(const Parameter& parameter) {
  write_key(parameter.key);
  ready_ += value_json(parameter);
}

}  // namespace tandem::net::text
