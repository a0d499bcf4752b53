// Strict JSON for files that decide what is loaded: no duplicate keys, no comments, nothing after the value.
//
// The parser of Boost.JSON keeps the last of two equal keys. In a tensor header that would hide one of two tensors, so
// keys are checked first.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::gpu {

// Parses `text`, whose root must be an object. `where` names the file in errors. A value takes many times the two bytes
// that it may have as text: where a text comes from outside, `values_max` bounds them before any is kept. Errors:
// bad_format (syntax with its byte offset, a key that appears twice in one object, nesting deeper than 32, a root that
// is not an object), out_of_range (more values than that).
Result<boost::json::object> parse_strict_json(std::string_view text, const std::string& where,
                                              std::size_t values_max = SIZE_MAX);

}  // namespace tandem::gpu
