// The schema judged: every subschema is visited once, by its place. See json_schema_match.cpp for values.
#include "net/text/json_schema.hpp"

#include "net/text/json/write.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace tandem::net::text {
namespace {

// Keywords whose members, elements or value are schemas.
constexpr std::array schema_maps = {"properties", "$defs", "definitions"};
constexpr std::array schema_lists = {"prefixItems", "anyOf", "oneOf", "allOf"};
constexpr std::array schema_values = {"items", "additionalProperties"};
constexpr std::array value_keywords = {
    "type",      "enum",    "const",   "required", "minItems", "maxItems",         "minLength",
    "maxLength", "minimum", "maximum", "nullable", "$ref",     "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::array notes = {"title", "description", "default",    "examples", "$schema",
                              "$id",   "$comment",    "deprecated", "readOnly", "writeOnly"};

template <class List>
bool holds(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

class SchemaJudge {
 public:
  SchemaJudge(const JsonSchema& schema, const SchemaLimits& limits) : schema_(schema), limits_(limits) {}

  // Returns the first problem at or below `node`, with its pointer.
  std::optional<std::string> judge(const Json& node, const std::string& at) {
    if (!seen_.insert(&node).second) return std::nullopt;  // a reference leads to places that were visited
    if (++nodes_ > limits_.nodes_max) return fmt::format("more than {} subschemas", limits_.nodes_max);
    if (node.if_bool() != nullptr) return std::nullopt;
    const JsonObject* members = node.if_object();
    if (members == nullptr) return problem(at, "must be an object or a boolean");
    for (const JsonMember& member : *members)
      if (auto found = judge_member(member, at + "/" + member.key)) return found;
    return std::nullopt;
  }

 private:
  static std::string problem(const std::string& at, std::string_view what) {
    return fmt::format("{} {}", at.empty() ? "/" : at, what);
  }

  std::optional<std::string> judge_member(const JsonMember& member, const std::string& at) {
    const Json& value = member.value;
    if (holds(schema_maps, member.key)) {
      if (value.if_object() == nullptr) return problem(at, "must be an object");
      for (const JsonMember& inner : *value.if_object())
        if (auto found = judge(inner.value, at + "/" + inner.key)) return found;
    } else if (holds(schema_lists, member.key)) {
      if (value.if_array() == nullptr) return problem(at, "must be an array");
      for (std::size_t i = 0; i < value.if_array()->size(); ++i)
        if (auto found = judge((*value.if_array())[i], fmt::format("{}/{}", at, i))) return found;
    } else if (holds(schema_values, member.key)) {
      return judge(value, at);
    } else if (member.key == "$ref") {
      const Json* target = value.if_string() == nullptr ? nullptr : resolve_reference(schema_, *value.if_string());
      return target == nullptr ? problem(at, "refers to nothing in this schema") : judge(*target, *value.if_string());
    } else if (schema_.is_strict && !holds(value_keywords, member.key) && !holds(notes, member.key)) {
      return problem(at, "cannot be enforced");
    }
    return std::nullopt;
  }

  const JsonSchema& schema_;
  const SchemaLimits& limits_;
  std::size_t nodes_ = 0;
  std::set<const Json*> seen_;
};

const Json* step_into(const Json& node, std::string_view key) {
  const JsonArray* elements = node.if_array();
  if (elements == nullptr) return node.find(key);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  return error == std::errc{} && end == key.data() + key.size() && index < elements->size() ? &(*elements)[index]
                                                                                            : nullptr;
}

// "~1" is '/', "~0" is '~'.
std::string unescaped(std::string_view part) {
  std::string key;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool is_escape = part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1');
    key += !is_escape ? part[i] : part[i + 1] == '1' ? '/' : '~';
    if (is_escape) ++i;
  }
  return key;
}

}  // namespace

const Json* resolve_reference(const JsonSchema& schema, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const Json* node = &schema.root;
  while (node != nullptr && reference.starts_with('/')) {
    reference.remove_prefix(1);
    const std::string_view part = reference.substr(0, reference.find('/'));
    node = step_into(*node, unescaped(part));
    reference.remove_prefix(part.size());
  }
  return reference.empty() ? node : nullptr;
}

std::optional<RequestError> judge_schema(const JsonSchema& schema, const std::string& param,
                                         const SchemaLimits& limits) {
  std::optional<std::string> found;
  if (write_json(schema.root).size() > limits.bytes_max)
    found = fmt::format("the schema is larger than {} bytes", limits.bytes_max);
  else
    found = SchemaJudge(schema, limits).judge(schema.root, "");
  if (!found) return std::nullopt;
  return RequestError{400, param, "invalid_schema", fmt::format("{}: {}", param, *found)};
}

}  // namespace tandem::net::text
