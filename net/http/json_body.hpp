// The request body as one JSON object, by the rules that every POST route shares.
#pragma once

#include "net/text/json/value.hpp"
#include "net/text/request_error.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tandem::net::http {

// Returns the object. Errors: 400 invalid_json for anything that is not exactly one JSON object of at most 128 levels,
// and for a top-level field that stands there twice (inside schemas and arguments the last one wins).
text::RequestResult<text::Json> parse_body(std::string_view body);

// Returns the first member name that occurs twice at the top level of `object`, which must be valid JSON. Names are
// compared as they are meant: "n" and "\u006e" are one.
std::optional<std::string> find_repeated_member(std::string_view object);

// Gives what reading a large body took back to the system; an allocator keeps millions of small blocks otherwise.
void return_memory(std::size_t body_bytes);

}  // namespace tandem::net::http
