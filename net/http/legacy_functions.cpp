// Builds the new members from the old values.
#include "net/http/legacy_functions.hpp"

#include <utility>

namespace tandem::net::http {

using text::Json;
using text::JsonArray;
using text::JsonMember;
using text::JsonObject;

void translate_legacy_functions(Json& body) {
  const Json* functions = body.find_given("functions");
  JsonObject* members = body.if_object();
  if (functions == nullptr || functions->if_array() == nullptr || members == nullptr) return;
  if (body.find_given("tools") != nullptr) return;
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
}

}  // namespace tandem::net::http
