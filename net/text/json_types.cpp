// The keywords are asked in the order in which they are decisive: `type` first.
#include "net/text/json_types.hpp"

#include <array>
#include <string_view>

namespace tandem::net::text {

JsonTypes JsonTypes::union_of(const JsonArray& list, JsonTypes (*one)(const Json&)) {
  std::uint8_t bits = 0;
  for (const Json& item : list) bits = static_cast<std::uint8_t>(bits | one(item).bits_);
  return bits == 0 ? unknown() : JsonTypes(bits);
}

JsonTypes JsonTypes::named(const Json& name) {
  struct Entry {
    std::string_view name;
    std::uint8_t bits;
  };
  static constexpr std::array<Entry, 7> entries = {{{"null", null},
                                                    {"boolean", boolean},
                                                    {"integer", integer},
                                                    {"number", number},
                                                    {"string", string},
                                                    {"array", array},
                                                    {"object", object}}};
  const std::string* text = name.if_string();
  for (const Entry& entry : entries) {
    if (text != nullptr && *text == entry.name) return JsonTypes(entry.bits);
  }
  return unknown();
}

JsonTypes JsonTypes::of_value(const Json& value) {
  if (const JsonNumber* n = value.if_number()) {
    return JsonTypes(n->text.find_first_of(".eE") == std::string::npos ? integer : fraction);
  }
  return named(Json(std::string(value.type_name())));
}

JsonTypes JsonTypes::of_keywords(const Json& schema) {
  if (const Json* type = schema.find_given("type")) {
    return type->if_array() != nullptr ? union_of(*type->if_array(), named) : named(*type);
  }
  if (const Json* value = schema.find("const")) return of_value(*value);
  if (const Json* values = schema.find_given("enum"); values != nullptr && values->if_array() != nullptr) {
    return union_of(*values->if_array(), of_value);
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* choices = schema.find_given(key);
    if (choices != nullptr && choices->if_array() != nullptr) return union_of(*choices->if_array(), of_schema);
  }
  return unknown();
}

JsonTypes JsonTypes::of_schema(const Json& schema) {
  JsonTypes types = of_keywords(schema);
  const Json* nullable = schema.find_given("nullable");
  if (nullable != nullptr && nullable->if_bool() != nullptr && *nullable->if_bool()) types.bits_ |= null;
  return types;
}

}  // namespace tandem::net::text
