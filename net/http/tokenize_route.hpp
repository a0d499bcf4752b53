// /tokenize and /detokenize: the encoder for clients that count. CPU only, no queue.
#pragma once

#include "net/http/api_context.hpp"
#include "net/http/exchange.hpp"

namespace tandem::net::http {

// Text form {prompt, add_special_tokens} or chat form {messages, tools, ...}; the latter gives exactly what chat would
// prefill.
Awaitable<Response> tokenize_request(const ApiContext& context, const Request& request);

// {tokens} to {prompt}; ids out of range are 400.
Awaitable<Response> detokenize_request(const ApiContext& context, const Request& request);

}  // namespace tandem::net::http
