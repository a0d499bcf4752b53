// Json to text in the one spelling that the model was trained on: Python's json.dumps(value, ensure_ascii=False).
//
// Separators are ", " and ": ", keys stay in their order, no ASCII escaping. Integers are written digit by digit as
// received ("-0" becomes "0"); other numbers take the shortest form that reads back as the same double, in Python's
// repr spelling.
#pragma once

#include "net/text/json/value.hpp"

#include <string>
#include <string_view>

namespace tandem::net::text {

// Appends the document.
void write_json(std::string& out, const Json& value);
std::string write_json(const Json& value);

// Appends `text` as a JSON string with its quotes. Escapes '"', '\' and U+0000..U+001F only.
void write_json_string(std::string& out, std::string_view text);
// As above without the quotes: a piece of a longer string.
void write_json_string_body(std::string& out, std::string_view text);

// Returns a number's text in Python's spelling: "2.50" -> "2.5", "1e20" -> "1e+20", "1E5" -> "100000.0", "-0" -> "0".
// A number beyond the range of a double has no Python spelling that is JSON and stays as it was received.
std::string python_number(std::string_view text);

}  // namespace tandem::net::text
