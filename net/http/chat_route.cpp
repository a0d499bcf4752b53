// Read, ask, then answer in one of two ways. Every stream ends with [DONE], after a finish reason or an error event.
#include "net/http/chat_route.hpp"

#include "net/http/chat_answer.hpp"
#include "net/http/chat_request.hpp"
#include "net/http/error_body.hpp"
#include "net/http/json_body.hpp"

#include <functional>
#include <optional>
#include <utility>

namespace tandem::net::http {
namespace {

// What logs and counters call a request whose client left before its answer.
constexpr int client_left = 499;

Awaitable<int> refuse(Exchange& exchange, const ApiError& error) {
  Response response = error_response(error);
  co_await exchange.respond(std::move(response));
  co_return error.status;
}

Awaitable<int> stream_answer(Exchange& exchange, ChatAnswer& answer) {
  const bool is_open = co_await exchange.open_stream();
  if (!is_open) co_return client_left;
  const ChatOutcome outcome = co_await answer.stream();
  if (outcome == ChatOutcome::peer_gone) {
    exchange.drop();
    co_return client_left;
  }
  const std::string last = outcome == ChatOutcome::failed ? error_events(answer.error()) : answer.last_events();
  const bool is_sent = co_await exchange.send(last);
  if (is_sent) co_await exchange.close_stream();
  co_return outcome == ChatOutcome::failed ? answer.error().status : 200;
}

Awaitable<int> whole_answer(Exchange& exchange, ChatAnswer& answer) {
  const ChatOutcome outcome = co_await answer.gather();
  if (outcome == ChatOutcome::peer_gone) {
    exchange.drop();
    co_return client_left;
  }
  if (outcome == ChatOutcome::failed) co_return co_await refuse(exchange, answer.error());
  Response response;
  response.body = answer.body();
  co_await exchange.respond(std::move(response));
  co_return 200;
}

}  // namespace

Awaitable<int> serve_chat(const ApiContext& context, Exchange& exchange) {
  ChatJob job;
  std::optional<ApiError> error;
  const std::string& body = exchange.request().body;
  std::function<void()> read = [&] {
    error = read_chat_job(context, body, job);
    return_memory(body.size());
  };
  const bool is_read = co_await context.pool.run(std::move(read));
  exchange.release_body();
  if (!is_read) error = stopping_error();
  if (error) co_return co_await refuse(exchange, *error);
  context.counters.count_request(job.fields.max_tokens, job.fields.choices);
  ChatAnswer answer{context, job, exchange};
  const ChatOutcome outcome = co_await answer.ask();
  if (outcome == ChatOutcome::failed) co_return co_await refuse(exchange, answer.error());
  if (outcome == ChatOutcome::peer_gone) {
    exchange.drop();
    co_return client_left;
  }
  if (job.fields.is_stream) co_return co_await stream_answer(exchange, answer);
  co_return co_await whole_answer(exchange, answer);
}

}  // namespace tandem::net::http
