// The route table: which path is what, which methods it has, whether it needs a key.
//
// Every path exists with and without the /v1 prefix: people forget it in base URLs.
#pragma once

#include <string>
#include <string_view>

namespace tandem::net::http {

enum class Route {
  chat,
  models,
  model,
  tokenize,
  detokenize,
  health,
  livez,
  ping,
  version,
  metrics,
  status,
  root,
  unknown
};

struct RouteMatch {
  Route route = Route::unknown;
  std::string_view name = "unknown";  // for metrics: "/v1/chat/completions"
  bool is_post = false;               // else GET and HEAD
  bool needs_key = true;
  std::string tail;  // the model id of /v1/models/{id}
};

// `path` is decoded and has no trailing slash.
RouteMatch match_route(std::string_view path);

// Returns the Allow header of a route: "POST, OPTIONS" or "GET, HEAD, OPTIONS".
std::string_view allowed_methods(const RouteMatch& match) noexcept;

}  // namespace tandem::net::http
