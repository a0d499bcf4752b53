// "*" allows every origin; otherwise the origin must be listed exactly, and the answer depends on it.
#include "net/http/cors.hpp"

#include <algorithm>

namespace tandem::net::http {
namespace {

bool is_allowed(const std::string* origin, const std::vector<std::string>& origins) {
  if (origin == nullptr) return false;
  return std::ranges::find(origins, *origin) != origins.end() || std::ranges::find(origins, "*") != origins.end();
}

}  // namespace

std::vector<Header> cors_headers(const Request& request, const std::vector<std::string>& origins) {
  if (origins.empty()) return {};
  const std::string* origin = request.find_header("origin");
  if (!is_allowed(origin, origins)) return {{"vary", "origin"}};
  return {{"access-control-allow-origin", *origin},
          {"access-control-expose-headers", "x-request-id, retry-after"},
          {"vary", "origin"}};
}

Response preflight_response(const Request& request, const std::vector<std::string>& origins, std::string_view methods) {
  Response response;
  response.status = 204;
  response.content_type.clear();
  response.headers.push_back({"allow", std::string(methods)});
  if (!is_allowed(request.find_header("origin"), origins)) return response;
  response.headers.push_back({"access-control-allow-methods", std::string(methods)});
  response.headers.push_back({"access-control-max-age", "86400"});
  if (const std::string* asked = request.find_header("access-control-request-headers"))
    response.headers.push_back({"access-control-allow-headers", *asked});
  return response;
}

}  // namespace tandem::net::http
