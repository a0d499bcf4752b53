// JsonWriter: builds an answer as text, member by member, in exactly the order and spelling that the wire shows (no
// spaces).
//
// General libraries reorder keys or write 1.0 as 1E0; clients that compare text and people who read a stream want
// neither.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::net::http {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return shut('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return shut(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& string(std::string_view value);
  JsonWriter& boolean(bool value) { return literal(value ? "true" : "false"); }
  JsonWriter& null() { return literal("null"); }
  JsonWriter& integer(std::integral auto value) { return literal(std::to_string(value)); }
  // Finite numbers only; minus infinity (a forbidden token's log-probability) is written -9999.0, other non-finite ones
  // null.
  JsonWriter& number(double value);
  // A value that is JSON already.
  JsonWriter& literal(std::string_view json);

  // A string, or null for an empty one.
  JsonWriter& string_or_null(std::string_view value) { return value.empty() ? null() : string(value); }

  const std::string& text() const noexcept { return out_; }
  std::string take() { return std::exchange(out_, {}); }

 private:
  void separate();
  JsonWriter& open(char bracket);
  JsonWriter& shut(char bracket);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace tandem::net::http
