// A JSON document as it was received: members in their order, numbers as the text that stood there.
//
// The prompt shows tool schemas to the model, so a request must not lose the order of keys or the digits of a number;
// general JSON libraries lose one or the other. Duplicate keys keep the first position and the last value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::net::text {

class Json;
struct JsonMember;

// A number's text, valid by the JSON grammar, of any size: "1e999" and 40-digit integers included.
struct JsonNumber {
  std::string text;
};

using JsonArray = std::vector<Json>;
using JsonObject = std::vector<JsonMember>;

class Json {
 public:
  // Defined below JsonMember: a vector of it cannot be made or destroyed before it is complete.
  Json() noexcept;  // null
  explicit Json(bool value);
  explicit Json(JsonNumber value);
  explicit Json(std::string value);
  explicit Json(JsonArray value);
  explicit Json(JsonObject value);
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }

  // Each returns nullptr when the value is of another type.
  const bool* if_bool() const noexcept { return std::get_if<bool>(&value_); }
  const JsonNumber* if_number() const noexcept { return std::get_if<JsonNumber>(&value_); }
  const std::string* if_string() const noexcept { return std::get_if<std::string>(&value_); }
  const JsonArray* if_array() const noexcept { return std::get_if<JsonArray>(&value_); }
  const JsonObject* if_object() const noexcept { return std::get_if<JsonObject>(&value_); }
  JsonArray* if_array() noexcept { return std::get_if<JsonArray>(&value_); }
  JsonObject* if_object() noexcept { return std::get_if<JsonObject>(&value_); }

  // Returns the member of that name if this is an object that has it, else nullptr.
  const Json* find(std::string_view key) const noexcept;
  // As find(), but a member that is null counts as absent: clients send null for "not given".
  const Json* find_given(std::string_view key) const noexcept;

  // Returns the type's name as an error message says it: "null", "boolean", "number", "string", "array", "object".
  std::string_view type_name() const noexcept;

 private:
  std::variant<std::monostate, bool, JsonNumber, std::string, JsonArray, JsonObject> value_;
};

struct JsonMember {
  std::string key;
  Json value;
};

inline Json::Json() noexcept = default;
inline Json::Json(bool value) : value_(value) {}
inline Json::Json(JsonNumber value) : value_(std::move(value)) {}
inline Json::Json(std::string value) : value_(std::move(value)) {}
inline Json::Json(JsonArray value) : value_(std::move(value)) {}
inline Json::Json(JsonObject value) : value_(std::move(value)) {}
inline Json::Json(const Json&) = default;
inline Json::Json(Json&&) noexcept = default;
inline Json& Json::operator=(const Json&) = default;
inline Json& Json::operator=(Json&&) noexcept = default;
inline Json::~Json() = default;

}  // namespace tandem::net::text
