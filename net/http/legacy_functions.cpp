// Builds the new members from the old values.
#include "net/http/legacy_functions.hpp"

#include <utility>

namespace tandem::net::http {

using text::Json;
using text::JsonArray;
using text::JsonMember;
using text::JsonObject;

namespace {

std::optional<text::RequestError> judge(const Json& body) {
  const Json* functions = body.find_given("functions");
  if (functions != nullptr && functions->if_array() == nullptr)
    return text::wrong_type("functions", "an array", functions->type_name());
  const Json* call = body.find_given("function_call");
  if (call == nullptr) return std::nullopt;
  const std::string* word = call->if_string();
  if (word == nullptr && call->if_object() == nullptr)
    return text::wrong_type("function_call", "a string or an object", call->type_name());
  if (word != nullptr && *word != "auto" && *word != "none")
    return text::invalid_value("function_call", "function_call must be auto, none or an object with a name");
  if (word == nullptr && functions == nullptr)
    return text::invalid_value("function_call", "function_call names a function, but there are no functions");
  return std::nullopt;
}

}  // namespace

std::optional<text::RequestError> translate_legacy_functions(Json& body) {
  if (auto error = judge(body)) return error;
  const Json* functions = body.find_given("functions");
  JsonObject* members = body.if_object();
  if (functions == nullptr || members == nullptr || body.find_given("tools") != nullptr) return std::nullopt;
  JsonArray tools;
  for (const Json& function : *functions->if_array())
    tools.emplace_back(JsonObject{JsonMember{"type", Json{std::string{"function"}}}, JsonMember{"function", function}});
  Json choice;
  if (const Json* call = body.find_given("function_call")) {
    // {"name": N} becomes the named form; "auto" and "none" are spelled the same in both.
    choice = call->if_object() == nullptr
                 ? *call
                 : Json{JsonObject{JsonMember{"type", Json{std::string{"function"}}}, JsonMember{"function", *call}}};
  }
  std::erase_if(*members,
                [](const JsonMember& member) { return member.key == "tools" || member.key == "tool_choice"; });
  members->push_back({"tools", Json{std::move(tools)}});
  if (!choice.is_null()) members->push_back({"tool_choice", std::move(choice)});
  return std::nullopt;
}

}  // namespace tandem::net::http
