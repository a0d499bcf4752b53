// Where and why a text is no JSON document: the words of an error, found by a second look at a refused text.
//
// simdjson says that a text is wrong, seldom where. This walk over the grammar makes no values, so the accepted texts,
// which are nearly all, pay nothing for it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tandem::net::text {

struct JsonFault {
  std::size_t at = 0;         // byte offset; the text's size when the text ends too early
  const char* expected = "";  // what should have stood there
};

// Returns the first place where `text` leaves the rules of parse.hpp; nullopt for a document that keeps them.
std::optional<JsonFault> find_fault(std::string_view text);

}  // namespace tandem::net::text
