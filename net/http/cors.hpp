// Cross-origin access for browsers: off unless origins are configured.
#pragma once

#include "net/http/message.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http {

// Returns the headers that every answer to this request carries: none without an allowed Origin.
std::vector<Header> cors_headers(const Request& request, const std::vector<std::string>& origins);

// Returns the answer to OPTIONS: 204 with Allow, and what a preflight asks for if the origin is allowed.
Response preflight_response(const Request& request, const std::vector<std::string>& origins, std::string_view methods);

}  // namespace tandem::net::http
