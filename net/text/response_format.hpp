// `response_format`: free text, any JSON object, or JSON by a schema. Compiling the schema into a constraint is not
// done here.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <string>

namespace tandem::net::text {

enum class FormatKind { text, json_object, json_schema };

struct ResponseFormat {
  FormatKind kind = FormatKind::text;
  std::string name;        // json_schema: 1 to 64 of A-Z a-z 0-9 _ -
  Json schema;             // json_schema: the schema as received, shown to the model at the end of the system message
  bool is_strict = false;  // json_schema
};

// Reads the field; null is text. Errors: 400 `response_format`.
RequestResult<ResponseFormat> read_response_format(const Json* json);

// Reads name, schema and strict of one object: the inner `json_schema` here, the flat `text.format` of the Responses
// API there. `param` names the field in errors.
RequestResult<ResponseFormat> read_schema_format(const Json& json, const std::string& param);

}  // namespace tandem::net::text
