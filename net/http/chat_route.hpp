// POST /v1/chat/completions, streaming and not.
#pragma once

#include "net/http/api_context.hpp"
#include "net/http/exchange.hpp"

namespace tandem::net::http {

// Answers the exchange completely; returns the status for logs and counters (499: the client left before its answer).
Awaitable<int> serve_chat(const ApiContext& context, Exchange& exchange);

}  // namespace tandem::net::http
