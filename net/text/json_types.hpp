// Which JSON types a parameter's schema admits: as much of JSON Schema as the repair of a model's arguments needs.
#pragma once

#include "net/text/json/value.hpp"

#include <cstdint>

namespace tandem::net::text {

// A set of types. `unknown` means that the schema does not say: everything is admitted and nothing is repaired.
class JsonTypes {
 public:
  enum Type : std::uint8_t { null = 1, boolean = 2, integer = 4, fraction = 8, string = 16, array = 32, object = 64 };
  static constexpr std::uint8_t number = integer | fraction;

  static JsonTypes unknown() { return JsonTypes(all); }

  // Returns what a property's schema admits, by `type`, `enum`, `const`, `anyOf`, `oneOf` and `nullable`; anything else
  // is unknown.
  static JsonTypes of_schema(const Json& schema);
  // Returns the one type of a value; an integer is a number without point and exponent.
  static JsonTypes of_value(const Json& value);

  bool is_unknown() const noexcept { return bits_ == all; }
  bool admits_string() const noexcept { return (bits_ & string) != 0; }
  bool is_string_only() const noexcept { return bits_ == string; }
  bool admits(const Json& value) const { return (bits_ & of_value(value).bits_) != 0; }

 private:
  static constexpr std::uint8_t all = 127;
  explicit JsonTypes(std::uint8_t bits) noexcept : bits_(bits) {}

  static JsonTypes union_of(const JsonArray& list, JsonTypes (*one)(const Json&));
  static JsonTypes named(const Json& name);
  static JsonTypes of_keywords(const Json& schema);

  std::uint8_t bits_;
};

}  // namespace tandem::net::text
