// Shape checks only; what the schema means is for whoever compiles it.
#include "net/text/response_format.hpp"

#include <algorithm>
#include <utility>

namespace tandem::net::text {
namespace {

constexpr std::size_t name_bytes_max = 64;

bool is_name(const std::string& name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= name_bytes_max && std::all_of(name.begin(), name.end(), is_letter);
}

}  // namespace

RequestResult<ResponseFormat> read_schema_format(const Json& json, const std::string& param) {
  const Json* name = json.find_given("name");
  if (name == nullptr || name->if_string() == nullptr || !is_name(*name->if_string())) {
    return invalid_value(param, param + " must have a name of 1 to 64 characters A-Z a-z 0-9 _ -");
  }
  const Json* schema = json.find_given("schema");
  if (schema == nullptr || (schema->if_object() == nullptr && schema->if_bool() == nullptr)) {
    return invalid_value(param, param + " must have a schema object");
  }
  const Json* strict = json.find_given("strict");
  if (strict != nullptr && strict->if_bool() == nullptr)
    return invalid_value(param, param + ": strict must be a boolean");
  return ResponseFormat{FormatKind::json_schema, *name->if_string(), *schema, strict != nullptr && *strict->if_bool()};
}

RequestResult<ResponseFormat> read_response_format(const Json* json) {
  static const std::string param = "response_format";
  if (json == nullptr || json->is_null()) return ResponseFormat{};
  if (json->if_object() == nullptr) return wrong_type(param, "an object", json->type_name());
  const Json* type = json->find_given("type");
  const std::string word = type != nullptr && type->if_string() != nullptr ? *type->if_string() : "";
  if (word == "text") return ResponseFormat{};
  if (word == "json_object") return ResponseFormat{FormatKind::json_object, {}, {}, false};
  if (word != "json_schema")
    return invalid_value(param, "response_format.type must be text, json_object or json_schema");
  const Json* inner = json->find_given("json_schema");
  if (inner == nullptr || inner->if_object() == nullptr) {
    return invalid_value(param, "response_format.json_schema must be an object");
  }
  return read_schema_format(*inner, param);
}

}  // namespace tandem::net::text
