// Request and response as the routes see them: plain values, no Beast type.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::net::http {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;  // "GET", as sent
  std::string target;  // as sent: path, query, escapes
  std::string path;    // percent-decoded, without query and without a trailing slash (the root stays "/")
  std::string id;      // x-request-id of the client, or a new one
  std::vector<Header> headers;
  std::string body;       // empty until the head was admitted
  bool has_body = false;  // the head announces one
  bool is_http_1_0 = false;

  // Returns the first header of that name (ASCII case ignored), or nullptr.
  const std::string* find_header(std::string_view name) const noexcept;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<Header> headers;  // beyond content-type, content-length, date, connection, x-request-id
};

// Returns whether two header names or tokens are equal without regard to ASCII case.
bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept;

// Returns the reason phrase of a status, e.g. "Not Found".
std::string_view reason_phrase(int status) noexcept;

// Splits a request target: drops scheme and authority of the absolute form, the query and a trailing slash, decodes
// %XX. A broken escape stays as it is.
std::string decode_path(std::string_view target);

}  // namespace tandem::net::http
