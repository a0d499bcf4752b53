// JSON schemas as answers are held to them: which schemas can be enforced, and whether a value conforms to one.
//
// Enforced: type, enum, const, properties, required, additionalProperties, items, prefixItems, min/maxItems,
// min/maxLength, minimum, maximum and their exclusive forms, anyOf, oneOf (as anyOf), allOf, nullable, $ref into the
// schema itself. Everything else that judges values (pattern, format, multipleOf, ...) is refused in a strict schema
// and ignored in one that is not.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace tandem::net::text {

struct JsonSchema {
  const Json& root;
  bool is_strict = false;  // objects without additionalProperties then have no other members
};

struct SchemaLimits {
  std::size_t bytes_max = 256 * 1024;  // as written JSON
  std::size_t nodes_max = 10'000;      // subschemas
};

// Returns why the schema cannot be enforced: 400 `invalid_schema` with the JSON pointer in the message and `param` as
// the field. Nothing if it can.
std::optional<RequestError> judge_schema(const JsonSchema& schema, const std::string& param,
                                         const SchemaLimits& limits = {});

// Returns where and how `value` breaks the schema ("/age must be an integer"), or nothing. The schema must have passed
// judge_schema().
std::optional<std::string> find_violation(const JsonSchema& schema, const Json& value);

// Returns the subschema that a "$ref" of this schema means, or nullptr: "#", "#/$defs/point".
const Json* resolve_reference(const JsonSchema& schema, std::string_view reference);

}  // namespace tandem::net::text
