// Api: the service behind the listener. Judges heads (CORS, route, method, key, type), sends each request to its route,
// counts and logs.
#pragma once

#include "net/http/api_context.hpp"
#include "net/http/auth.hpp"
#include "net/http/exchange.hpp"
#include "net/http/routes.hpp"

namespace tandem::net::http {

class Api final : public Service {
 public:
  // `context` must outlive it.
  explicit Api(const ApiContext& context) : context_(context), keys_(context.options.keys) {}

  HeadVerdict admit(const Request& request) override;
  Awaitable<void> serve(Exchange& exchange) override;
  Response refuse(int status, std::string_view message) override;

 private:
  std::optional<Response> judge(const Request& request, const RouteMatch& match) const;
  Awaitable<int> dispatch(const RouteMatch& match, Exchange& exchange);
  Awaitable<Response> answer(const RouteMatch& match, const Request& request);

  const ApiContext& context_;
  const KeyRing keys_;
};

}  // namespace tandem::net::http
