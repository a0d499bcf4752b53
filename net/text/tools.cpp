// Reading of tools and of the choice among them.
#include "net/text/tools.hpp"

#include "net/text/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tandem::net::text {
namespace {

const std::string* find_text(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr ? nullptr : value->if_string();
}

bool is_name_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '-';
}

bool is_name(std::string_view name, std::size_t bytes_max) {
  return !name.empty() && name.size() <= bytes_max && std::all_of(name.begin(), name.end(), is_name_letter);
}

// The namespace may stand beside the function or inside it; both at once only if they agree.
struct Namespace {
  const Json* value = nullptr;
  bool is_contradictory = false;
};

std::string_view namespace_text(const Json& space) {
  const std::string* text = space.if_string() != nullptr ? space.if_string() : find_text(space, "name");
  return text == nullptr ? std::string_view() : *text;
}

Namespace find_namespace(const Json& tool, const Json& function) {
  const Json* beside = tool.find_given("namespace");
  const Json* inside = &tool == &function ? nullptr : function.find_given("namespace");
  if (beside == nullptr || inside == nullptr) return {beside != nullptr ? beside : inside, false};
  return {beside, namespace_text(*beside) != namespace_text(*inside)};
}

// Keys that are the transport's and not the function's. `type` is one only where the function is not wrapped.
bool is_shown(std::string_view key, bool is_wrapped) {
  return key != "namespace" && key != "cache_control" && (is_wrapped || key != "type");
}

// The object that the prompt shows: qualified name in place of the name, the namespace's description before the
// function's.
Json shown_function(const JsonObject& function, bool is_wrapped, const std::string& name, const Json* space) {
  const std::string* prefix = space == nullptr ? nullptr : find_text(*space, "description");
  const bool has_prefix = prefix != nullptr && !prefix->empty();
  const bool has_description = std::any_of(function.begin(), function.end(), [](const JsonMember& member) {
    return member.key == "description" && member.value.if_string() != nullptr;
  });
  JsonObject shown;
  for (const JsonMember& member : function) {
    if (!is_shown(member.key, is_wrapped)) continue;
    if (member.key == "name") {
      shown.push_back({"name", Json(name)});
      if (has_prefix && !has_description) shown.push_back({"description", Json(*prefix)});
    } else if (member.key == "description" && has_prefix) {
      if (has_description) shown.push_back({"description", Json(*prefix + "\n" + *member.value.if_string())});
    } else {
      shown.push_back(member);
    }
  }
  return Json(std::move(shown));
}

RequestResult<Tool> read_tool(const Json& json, std::size_t index, const ToolLimits& limits) {
  const auto refuse = [&](std::string_view what) {
    return invalid_value("tools", fmt::format("tools[{}] {}", index, what));
  };
  if (json.if_object() == nullptr) return refuse("must be an object");
  const Json* type = json.find_given("type");
  if (type != nullptr && (type->if_string() == nullptr || *type->if_string() != "function")) {
    return refuse("must have the type \"function\"");
  }
  const Json* wrapped = json.find_given("function");
  const Json& function = wrapped != nullptr ? *wrapped : json;
  if (function.if_object() == nullptr) return refuse("must hold a function object");
  const std::string* name = find_text(function, "name");
  if (name == nullptr) return refuse("must have a name");
  const Namespace space = find_namespace(json, function);
  const auto qualified = space.is_contradictory ? std::nullopt : qualified_name(*name, space.value);
  if (!qualified) return refuse("has a namespace that contradicts its name");
  if (!is_name(*qualified, limits.name_bytes_max)) {
    return refuse(fmt::format("must have a name of 1 to {} characters A-Z a-z 0-9 _ . : -", limits.name_bytes_max));
  }
  const Json* parameters = function.find_given("parameters");
  if (parameters != nullptr && parameters->if_object() == nullptr) return refuse("must have an object as parameters");
  const Json* strict = function.find_given("strict");
  return Tool{*qualified, shown_function(*function.if_object(), wrapped != nullptr, *qualified, space.value),
              strict != nullptr && strict->if_bool() != nullptr && *strict->if_bool()};
}

RequestError bad_choice(std::string message) {
  return invalid_value("tool_choice", std::move(message));
}

// The name in {"function": {"name"}} or, as the Responses API has it, {"name"}.
RequestResult<std::string> chosen_name(const Json& choice, const std::vector<Tool>& tools) {
  const Json* wrapped = choice.find_given("function");
  const Json& function = wrapped != nullptr ? *wrapped : choice;
  const std::string* name = find_text(function, "name");
  if (name == nullptr) return bad_choice("tool_choice must name a function");
  const Json* space = choice.find_given("namespace");
  const std::string qualified =
      qualified_name(*name, space != nullptr ? space : function.find_given("namespace")).value_or(*name);
  if (find_tool(tools, qualified) == nullptr)
    return bad_choice(fmt::format("tool_choice names \"{}\", which is not in tools", qualified));
  return qualified;
}

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools": [...]}} or the same without the inner object.
RequestResult<ToolChoice> read_allowed(const Json& choice, const std::vector<Tool>& tools) {
  const Json* inner = choice.find_given("allowed_tools");
  const Json& allowed = inner != nullptr ? *inner : choice;
  const std::string* mode = find_text(allowed, "mode");
  const Json* list = allowed.find_given("tools");
  if (list == nullptr || list->if_array() == nullptr)
    return bad_choice("tool_choice.allowed_tools must have an array of tools");
  if (mode != nullptr && *mode != "auto" && *mode != "required")
    return bad_choice("tool_choice mode must be auto or required");
  ToolChoice result{mode != nullptr && *mode == "required" ? ToolMode::required : ToolMode::automatic, {}, false};
  for (const Json& item : *list->if_array()) {
    auto name = chosen_name(item, tools);
    if (!name) return name.error();
    result.allowed.push_back(std::move(*name));
  }
  if (result.allowed.empty()) return bad_choice("tool_choice.allowed_tools must allow at least one tool");
  return result;
}

}  // namespace

RequestResult<std::vector<Tool>> read_tools(const Json* json, const ToolLimits& limits) {
  std::vector<Tool> tools;
  if (json == nullptr || json->is_null()) return tools;
  const JsonArray* list = json->if_array();
  if (list == nullptr) return wrong_type("tools", "an array", json->type_name());
  if (list->size() > limits.tools_max) {
    return invalid_value("tools",
                         fmt::format("tools must hold at most {} tools, found {}", limits.tools_max, list->size()));
  }
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto tool = read_tool((*list)[i], i, limits);
    if (!tool) return tool.error();
    if (!names.insert(tool->name).second)
      return invalid_value("tools", fmt::format("tools holds \"{}\" twice", tool->name));
    tools.push_back(std::move(*tool));
  }
  return tools;
}

const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name) noexcept {
  const auto found = std::find_if(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

RequestResult<ToolChoice> read_tool_choice(const Json* json, const std::vector<Tool>& tools) {
  if (json == nullptr || json->is_null())
    return ToolChoice{tools.empty() ? ToolMode::none : ToolMode::automatic, {}, false};
  if (const std::string* word = json->if_string()) {
    if (*word == "none") return ToolChoice{};
    if (*word == "auto") return ToolChoice{tools.empty() ? ToolMode::none : ToolMode::automatic, {}, false};
    if (*word != "required") return bad_choice("tool_choice must be none, auto, required or an object");
    if (tools.empty()) return bad_choice("tool_choice is required, but there are no tools");
    return ToolChoice{ToolMode::required, {}, false};
  }
  const std::string* type = find_text(*json, "type");
  if (type == nullptr) return bad_choice("tool_choice must be none, auto, required or an object with a type");
  if (*type == "allowed_tools") return read_allowed(*json, tools);
  if (*type != "function") return bad_choice(fmt::format("tool_choice of type \"{}\" is not supported", *type));
  auto name = chosen_name(*json, tools);
  if (!name) return name.error();
  return ToolChoice{ToolMode::required, {std::move(*name)}, true};
}

}  // namespace tandem::net::text
