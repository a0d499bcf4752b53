// Commas between values, escapes inside strings, numbers as the shortest text that reads back.
#include "net/http/json_writer.hpp"

#include "net/text/json/write.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tandem::net::http {

void JsonWriter::separate() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::shut(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text::write_json_string(out_, name);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view value) {
  separate();
  text::write_json_string(out_, value);
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  if (std::isinf(value) && value < 0) return literal("-9999.0");
  if (!std::isfinite(value)) return null();
  return literal(fmt::format("{}", value));
}

JsonWriter& JsonWriter::literal(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace tandem::net::http
