// A table and a linear search: a dozen entries.
#include "net/http/routes.hpp"

#include <array>

namespace tandem::net::http {
namespace {

struct Entry {
  std::string_view path;  // without /v1
  std::string_view name;
  Route route;
  bool is_post;
  bool needs_key;
};

constexpr std::array entries{
    Entry{"/chat/completions", "/v1/chat/completions", Route::chat, true, true},
    Entry{"/models", "/v1/models", Route::models, false, true},
    Entry{"/tokenize", "/tokenize", Route::tokenize, true, true},
    Entry{"/detokenize", "/detokenize", Route::detokenize, true, true},
    Entry{"/health", "/health", Route::health, false, false},
    Entry{"/livez", "/livez", Route::livez, false, false},
    Entry{"/ping", "/ping", Route::ping, false, true},
    Entry{"/version", "/version", Route::version, false, true},
    Entry{"/metrics", "/metrics", Route::metrics, false, true},
    Entry{"/status", "/status", Route::status, false, true},
    Entry{"/", "/", Route::root, false, false},
};

constexpr std::string_view models_prefix = "/models/";

}  // namespace

RouteMatch match_route(std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  for (const Entry& entry : entries)
    if (entry.path == path) return {entry.route, entry.name, entry.is_post, entry.needs_key, {}};
  if (path.starts_with(models_prefix))
    return {Route::model, "/v1/models/{id}", false, true, std::string(path.substr(models_prefix.size()))};
  return {};
}

std::string_view allowed_methods(const RouteMatch& match) noexcept {
  return match.is_post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

}  // namespace tandem::net::http
