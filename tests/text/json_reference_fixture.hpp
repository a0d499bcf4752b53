// The plain reference of the JSON reader: one recursive-descent parser without any library, slow and easy to check.
//
// It shares no code with net/text/json beyond the value type and UTF-8, so that a mistake of one is not repeated by the
// other.
#pragma once

#include "engram/error.hpp"
#include "net/text/json/value.hpp"

#include <string>
#include <string_view>

namespace tandem::net::text::test {

// As parse_json(), with the same errors word for word.
Result<Json> reference_parse_json(std::string_view text);

// Returns a document in a spelling that loses nothing: number text as received, member order, types.
std::string spelled(const Json& value);

// Returns spelled(), or the error's message behind "refused: ".
std::string outcome(const Result<Json>& result);

}  // namespace tandem::net::text::test
