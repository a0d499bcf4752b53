// Attempts with growing waits around one request.
#include "net/fetch/small_file.hpp"

#include <fmt/format.h>

#include <chrono>
#include <random>
#include <vector>

#include "net/fetch/backoff.hpp"
#include "net/fetch/range_reply.hpp"

namespace tandem::net::fetch {
namespace {

Error too_long(const std::string& name) {
  return {ErrorCode::out_of_range, name, "too long a file", fmt::format("at most {} bytes", small_file_bytes_max)};
}

// Small or not: a server that sends a byte now and then would hold a fetch for days.
Awaitable<Result<std::string>> read_body(Connection& connection, const FetchLimits& limits, const std::string& name) {
  std::string body;
  std::vector<std::byte> block(std::size_t{64} << 10);
  auto window = std::chrono::steady_clock::now();
  std::size_t before_window = 0;
  for (;;) {
    const auto got = co_await connection.read_some(block);
    if (!got) co_return got.error();
    if (*got == 0) co_return body;
    body.append(reinterpret_cast<const char*>(block.data()), *got);
    if (body.size() > small_file_bytes_max) co_return too_long(name);
    const auto now = std::chrono::steady_clock::now();
    if (now - window < limits.read) continue;
    if (body.size() - before_window < limits.trickle_bytes)
      co_return Error{ErrorCode::timeout, name, "hardly any bytes within the limit", "a server that sends"};
    window = now;
    before_window = body.size();
  }
}

// One attempt. `wait` is set where the server asks for patience.
Awaitable<Result<SmallReply>> attempt_small(Client& client, const FetchLimits& limits, const Request& request,
                                            std::optional<std::chrono::seconds>& wait) {
  const std::string name = request.url.text_without_query();
  auto reply = co_await client.ask(request);
  if (!reply) co_return reply.error();
  const Wanted any_size{name, reply->head.content_length.value_or(0), std::nullopt, ""};
  const Verdict verdict = judge(reply->head, any_size);
  wait = verdict.wait;
  if (verdict.kind != Verdict::Kind::take) co_return verdict.error;
  SmallReply answer;
  if (!request.is_head) {
    if (reply->head.content_length.value_or(0) > small_file_bytes_max) co_return too_long(name);
    auto body = co_await read_body(*reply->connection, limits, name);
    if (!body) co_return body.error();
    answer.body = std::move(*body);
  }
  answer.reply = Reply{reply->head, reply->url, reply->passed, nullptr};
  client.give_back(std::move(*reply));
  co_return answer;
}

}  // namespace

Awaitable<Result<SmallReply>> ask_small(Client& client, const FetchLimits& limits, const FetchWatch& watch,
                                        Request request) {
  Backoff backoff(limits, std::random_device{}());
  for (;;) {
    std::optional<std::chrono::seconds> asked;
    auto answer = co_await attempt_small(client, limits, request, asked);
    if (answer || !is_transient(answer.error())) co_return answer;
    const auto wait = backoff.next(asked);
    if (!wait) co_return answer;
    watch.say(fmt::format("{}; trying again in {} ms", answer.error().message(), wait->count()));
    co_await wait_for(*wait);
  }
}

}  // namespace tandem::net::fetch
