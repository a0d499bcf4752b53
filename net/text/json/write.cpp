// Serialisation. Depth is bounded by the parser that made the document.
#include "net/text/json/write.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace tandem::net::text {
namespace {

// Python writes a float with an exponent when it is below -4 or at least 16.
constexpr int exponent_plain_min = -4;
constexpr int exponent_plain_end = 16;

// Splits to_chars' scientific form "d.ddde[+-]xx" into its digits (no point) and its exponent.
struct Scientific {
  std::string digits;
  int exponent = 0;
};

Scientific shortest_digits(double magnitude) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  Scientific result;
  for (const char c : text.substr(0, e)) {
    if (c != '.') result.digits.push_back(c);
  }
  const std::size_t skip = text[e + 1] == '+' ? 2 : 1;
  std::from_chars(text.data() + e + skip, text.data() + text.size(), result.exponent);
  return result;
}

std::string python_float(double value) {
  std::string out = std::signbit(value) ? "-" : "";
  auto [digits, exponent] = shortest_digits(std::fabs(value));
  if (exponent < exponent_plain_min || exponent >= exponent_plain_end) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void write_array(std::string& out, const JsonArray& items) {
  out.push_back('[');
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    write_json(out, items[i]);
  }
  out.push_back(']');
}

void write_object(std::string& out, const JsonObject& members) {
  out.push_back('{');
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += ", ";
    write_json_string(out, members[i].key);
    out += ": ";
    write_json(out, members[i].value);
  }
  out.push_back('}');
}

}  // namespace

void write_json(std::string& out, const Json& value) {
  if (const bool* boolean = value.if_bool()) {
    out += *boolean ? "true" : "false";
  } else if (const JsonNumber* number = value.if_number()) {
    out += python_number(number->text);
  } else if (const std::string* string = value.if_string()) {
    write_json_string(out, *string);
  } else if (const JsonArray* array = value.if_array()) {
    write_array(out, *array);
  } else if (const JsonObject* object = value.if_object()) {
    write_object(out, *object);
  } else {
    out += "null";
  }
}

std::string write_json(const Json& value) {
  std::string out;
  write_json(out, value);
  return out;
}

void write_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  write_json_string_body(out, text);
  out.push_back('"');
}

void write_json_string_body(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out.push_back(c);
        }
    }
  }
}

std::string python_number(std::string_view text) {
  if (text.find_first_of(".eE") == std::string_view::npos) return text == "-0" ? "0" : std::string(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range || end != text.data() + text.size()) return std::string(text);
  return python_float(value);
}

}  // namespace tandem::net::text
