// Reading of messages, part by part. Unknown keys are ignored at every level.
#include "net/text/messages.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace tandem::net::text {
namespace {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

constexpr std::array<Named<Role>, 7> roles = {{{"system", Role::system},
                                               {"developer", Role::system},
                                               {"user", Role::user},
                                               {"assistant", Role::assistant},
                                               {"tool", Role::tool},
                                               {"function", Role::tool},
                                               {"latest_reminder", Role::latest_reminder}}};

constexpr std::array<Named<Task>, 6> tasks = {{{"action", Task::action},
                                               {"query", Task::query},
                                               {"authority", Task::authority},
                                               {"domain", Task::domain},
                                               {"title", Task::title},
                                               {"read_url", Task::read_url}}};

template <class T, std::size_t N>
std::optional<T> find_named(const std::array<Named<T>, N>& table, const Json* value) {
  const std::string* name = value == nullptr ? nullptr : value->if_string();
  if (name == nullptr) return std::nullopt;
  for (const Named<T>& entry : table) {
    if (entry.name == *name) return entry.value;
  }
  return std::nullopt;
}

const std::string* find_text(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr ? nullptr : value->if_string();
}

bool is_true(const Json* value) {
  return value != nullptr && value->if_bool() != nullptr && *value->if_bool();
}

// Returns the address in an image part of any dialect: {"image_url": "..." or {"url": "..."}}, {"image": "..."}, or
// {"source": {"type": "base64", "media_type", "data"} or {"type": "url", "url"}}.
std::optional<std::string> image_address(const Json& part) {
  for (const char* key : {"image_url", "image"}) {
    const Json* value = part.find_given(key);
    if (value == nullptr) continue;
    if (const std::string* address = value->if_string()) return *address;
    if (const std::string* address = find_text(*value, "url")) return *address;
  }
  const Json* source = part.find_given("source");
  if (source == nullptr) return std::nullopt;
  if (const std::string* address = find_text(*source, "url")) return *address;
  const std::string* data = find_text(*source, "data");
  const std::string* media_type = find_text(*source, "media_type");
  if (data == nullptr || media_type == nullptr) return std::nullopt;
  return fmt::format("data:{};base64,{}", *media_type, *data);
}

RequestResult<ContentPart> read_part(const Json& part, const std::string& param, const MessageOptions& options) {
  const std::string* type = find_text(part, "type");
  if (type == nullptr) return invalid_value(param, fmt::format("{}: a part must be an object with a type", param));
  if (*type == "text" || *type == "input_text" || *type == "output_text" || *type == "refusal") {
    const std::string* text = find_text(part, *type == "refusal" ? "refusal" : "text");
    if (text == nullptr)
      return invalid_value(param, fmt::format("{}: a part of type {} must have a text", param, *type));
    return ContentPart{false, *text};
  }
  if (*type == "image_url" || *type == "input_image" || *type == "image") {
    if (!options.accepts_images) {
      return RequestError{400, param, "image_not_supported",
                          fmt::format("{}: this server does not accept images", param)};
    }
    auto address = image_address(part);
    if (!address) return invalid_value(param, fmt::format("{}: an image part must have an address or data", param));
    return ContentPart{true, std::move(*address)};
  }
  return invalid_value(param, fmt::format("{}: parts of type {} are not supported", param, *type));
}

RequestResult<ToolCall> read_call(const Json& json, const std::string& param) {
  const Json* wrapped = json.find_given("function");
  const Json& function = wrapped != nullptr ? *wrapped : json;
  const std::string* name = find_text(function, "name");
  if (name == nullptr) return invalid_value(param, fmt::format("{}: a call must have a function name", param));
  const Json* space = json.find_given("namespace");
  if (space == nullptr) space = function.find_given("namespace");
  const std::string* id = find_text(json, "id");
  const Json* arguments = function.find("arguments");
  return ToolCall{id == nullptr ? "" : *id, qualified_name(*name, space).value_or(*name),
                  arguments == nullptr ? Json() : *arguments};
}

RequestResult<std::vector<ToolCall>> read_calls(const Json& message, const std::string& prefix) {
  std::vector<ToolCall> calls;
  const std::string param = prefix + ".tool_calls";
  if (const Json* list = message.find_given("tool_calls")) {
    const JsonArray* items = list->if_array();
    if (items == nullptr) return wrong_type(param, "an array", list->type_name());
    for (const Json& item : *items) {
      auto call = read_call(item, param);
      if (!call) return call.error();
      calls.push_back(std::move(*call));
    }
  } else if (const Json* call_json = message.find_given("function_call")) {  // the form before tool_calls
    auto call = read_call(*call_json, prefix + ".function_call");
    if (!call) return call.error();
    calls.push_back(std::move(*call));
  }
  return calls;
}

// Clients replay reasoning under the name by which they received it; the first that is not empty counts.
std::string read_reasoning(const Json& message) {
  for (const char* key : {"reasoning_content", "reasoning", "reasoning_text"}) {
    const std::string* text = find_text(message, key);
    if (text != nullptr && !text->empty()) return *text;
  }
  return {};
}

RequestResult<Message> read_message(const Json& json, const std::string& prefix, const MessageOptions& options) {
  if (json.if_object() == nullptr) return wrong_type(prefix, "an object", json.type_name());
  const auto role = find_named(roles, json.find("role"));
  if (!role) {
    return invalid_value(prefix + ".role",
                         prefix + ".role must be system, developer, user, assistant, tool or latest_reminder");
  }
  Message message;
  message.role = *role;
  auto content = read_content(json.find("content"), prefix + ".content", options);
  if (!content) return content.error();
  message.content = std::move(*content);
  if (*role == Role::assistant) {
    auto calls = read_calls(json, prefix);
    if (!calls) return calls.error();
    message.calls = std::move(*calls);
    message.reasoning = read_reasoning(json);
    message.is_prefix = is_true(json.find("prefix")) || is_true(json.find("wo_eos"));
  }
  if (const std::string* id = find_text(json, "tool_call_id"); id != nullptr && *role == Role::tool)
    message.tool_call_id = *id;
  if (const Json* task = json.find_given("task"); task != nullptr && *role == Role::user) {
    message.task = find_named(tasks, task);
    if (!message.task) {
      return invalid_value(prefix + ".task",
                           prefix + ".task must be action, query, authority, domain, title or read_url");
    }
  }
  return message;
}

}  // namespace

RequestResult<Content> read_content(const Json* json, const std::string& param, const MessageOptions& options) {
  Content content;
  if (json == nullptr || json->is_null()) return content;
  if (const std::string* text = json->if_string()) {
    content.push_back({false, *text});
    return content;
  }
  const JsonArray* parts = json->if_array();
  if (parts == nullptr) return wrong_type(param, "a string or an array of parts", json->type_name());
  for (const Json& part_json : *parts) {
    auto part = read_part(part_json, param, options);
    if (!part) return part.error();
    content.push_back(std::move(*part));
  }
  return content;
}

RequestResult<std::vector<Message>> read_messages(const Json& json, const MessageOptions& options) {
  const JsonArray* list = json.if_array();
  if (list == nullptr) return wrong_type("messages", "an array", json.type_name());
  if (list->empty()) return invalid_value("messages", "messages must hold at least one message");
  std::vector<Message> messages;
  messages.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto message = read_message((*list)[i], fmt::format("messages[{}]", i), options);
    if (!message) return message.error();
    messages.push_back(std::move(*message));
  }
  return messages;
}

std::optional<std::string> qualified_name(const std::string& name, const Json* space) {
  static constexpr std::string_view separator = "::";
  const std::size_t first = name.find(separator);
  if (first != std::string::npos && name.find(separator, first + separator.size()) != std::string::npos)
    return std::nullopt;
  const std::string* text = nullptr;
  if (space != nullptr) text = space->if_string() != nullptr ? space->if_string() : find_text(*space, "name");
  if (space != nullptr && text == nullptr) return std::nullopt;
  if (text == nullptr || text->empty()) return name;
  if (text->find(separator) != std::string::npos) return std::nullopt;
  if (first == std::string::npos) return *text + std::string(separator) + name;
  return name.substr(0, first) == *text ? std::optional(name) : std::nullopt;
}

}  // namespace tandem::net::text
