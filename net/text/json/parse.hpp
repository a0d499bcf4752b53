// Text to Json: strict RFC 8259 grammar, with one kindness that chat clients need and one limit.
//
// A lone surrogate escape ("\ud83d" without its partner: clients cut emoji) becomes U+FFFD instead of an error. Nesting
// is bounded so that a hostile body cannot exhaust the stack. Raw invalid UTF-8 is an error, and so is anything after
// the document. The work is simdjson's; what it leaves unchecked is listed in parse.cpp.
#pragma once

#include "engram/error.hpp"
#include "net/text/json/value.hpp"

#include <cstddef>
#include <string_view>

namespace tandem::net::text {

// Objects and arrays inside each other that a request may have.
inline constexpr int json_depth_max = 128;

// Values of one document. A value takes about a hundred bytes: this, not the bytes of the text, bounds the memory. The
// largest honest documents (a vocabulary with its merges, a prompt of ids) have about a third of it.
inline constexpr std::size_t json_values_max = 2'000'000;

// Returns the document; any thread may call. Errors: bad_format, with the byte offset of the first fault in `where` and
// what stood there in `found`; resource for more than json_values_max values, for a text of 4 GiB or more, or without
// memory for the reader's buffers.
Result<Json> parse_json(std::string_view text);

// Returns whether `text` is one JSON document by the same rules (white space around it allowed).
bool is_json(std::string_view text);

}  // namespace tandem::net::text
