// Identifiers that the server hands out: request ids, answer ids, call ids. Random, never reused within a server's
// life.
#pragma once

#include <string>
#include <string_view>

namespace tandem::net::http {

// Returns whether a client's x-request-id may be echoed: 1 to 128 visible ASCII characters.
bool is_valid_request_id(std::string_view id) noexcept;

// Returns "req_" + 24 base62 characters.
std::string new_request_id();

// Returns `prefix` + 24 base62 characters (142 random bits): "chatcmpl-...", "call_...".
std::string new_random_id(std::string_view prefix);

// Returns 64 random bits, for seeds that the client left open.
unsigned long long random_bits();

}  // namespace tandem::net::http
