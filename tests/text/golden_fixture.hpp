// Access to the golden files of tests/golden/chat.
#pragma once

#include "net/text/json/value.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::text::test {

// Returns the file of that name, parsed; the test fails if it is not there.
const Json& golden(const std::string& name);

// Returns the array `key` of a golden file.
const JsonArray& golden_cases(const std::string& name, std::string_view key = "cases");

// Members of a case; the test fails if they are of another type.
const std::string& text_of(const Json& object, std::string_view key);
const JsonArray& array_of(const Json& object, std::string_view key);
std::vector<std::uint32_t> ids_of(const Json& object, std::string_view key);

// Parses text that must be JSON.
Json json(std::string_view text);

}  // namespace tandem::net::text::test
