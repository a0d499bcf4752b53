// Numbers of a request as C++ values. Requests are read strictly: a string is no number, a fraction is no integer.
#pragma once

#include "net/text/json/value.hpp"

#include <cstdint>
#include <optional>

namespace tandem::net::text {

// Returns the integer that the number is: "7", "7.0" and "70e-1" are, "7.5" and anything beyond int64 are not.
std::optional<std::int64_t> to_integer(const JsonNumber& number);

// Returns the nearest double; nullopt beyond its range ("1e999").
std::optional<double> to_double(const JsonNumber& number);

}  // namespace tandem::net::text
