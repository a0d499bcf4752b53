// getaddrinfo_a: started here, carried out by a thread of the C library, asked for its state now and then.
#include "net/fetch/name_lookup.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstring>
#include <memory>

namespace tandem::net::fetch {
namespace {

using std::chrono::milliseconds;
using tcp = boost::asio::ip::tcp;

constexpr milliseconds first_pause{1}, pause_max{50};

// A question and where its answer goes; the C library refers to all of it until the question is settled.
struct Question {
  std::string host, port;
  addrinfo hints{};
  gaicb request{};
};

struct SettleQuestion {
  void operator()(Question* question) const {
    // One that is being answered cannot be called back: the library keeps writing into it, and it is left to the
    // library. There are at most as many of them as attempts.
    if (::gai_cancel(&question->request) == EAI_NOTCANCELED) return;
    const std::unique_ptr<Question> owner(question);
    if (owner->request.ar_result != nullptr) ::freeaddrinfo(owner->request.ar_result);
  }
};
using OpenQuestion = std::unique_ptr<Question, SettleQuestion>;

Error lookup_error(const Url& url, ErrorCode code, std::string_view reason) {
  return {code, url.host_field(), fmt::format("resolving the name: {}", reason), ""};
}

Result<OpenQuestion> ask(const Url& url) {
  OpenQuestion question(std::make_unique<Question>().release());
  question->host = url.host;
  question->port = url.port;
  question->hints.ai_socktype = SOCK_STREAM;
  question->hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
  question->request.ar_name = question->host.c_str();
  question->request.ar_service = question->port.c_str();
  question->request.ar_request = &question->hints;
  gaicb* requests[] = {&question->request};
  const int failed = ::getaddrinfo_a(GAI_NOWAIT, requests, 1, nullptr);
  if (failed != 0) return lookup_error(url, ErrorCode::unavailable, ::gai_strerror(failed));
  return question;
}

// Returns the outcome, or EAI_INPROGRESS. The state alone may be seen before the answer that was written ahead of it;
// that the question has left the library's queue is told under the lock under which it left.
int state_of(Question& question) {
  const int state = ::gai_error(&question.request);
  const bool is_settled = state != EAI_INPROGRESS && ::gai_cancel(&question.request) == EAI_ALLDONE;
  return is_settled ? state : EAI_INPROGRESS;
}

Endpoints endpoints_of(const addrinfo* list) {
  Endpoints endpoints;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    tcp::endpoint endpoint;
    if (at->ai_addrlen > endpoint.capacity()) continue;
    endpoint.resize(at->ai_addrlen);
    std::memcpy(endpoint.data(), at->ai_addr, at->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

// Returns the endpoint of an address that is a number already.
std::optional<tcp::endpoint> numeric_endpoint(const Url& url) {
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(url.host, failed);
  std::uint16_t port = 0;
  const auto [end, wrong] = std::from_chars(url.port.data(), url.port.data() + url.port.size(), port);
  if (failed || wrong != std::errc() || end != url.port.data() + url.port.size()) return std::nullopt;
  return tcp::endpoint(address, port);
}

}  // namespace

Awaitable<Result<Endpoints>> look_up(const Url& url, milliseconds limit) {
  if (const auto known = numeric_endpoint(url)) co_return Endpoints{*known};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto question = ask(url);
  if (!question) co_return question.error();
  for (milliseconds pause = first_pause;; pause = std::min(2 * pause, pause_max)) {
    if (std::chrono::steady_clock::now() >= deadline)
      co_return lookup_error(url, ErrorCode::timeout, "no answer within the limit");
    const int state = state_of(**question);
    if (state == 0) break;
    if (state != EAI_INPROGRESS) co_return lookup_error(url, ErrorCode::unavailable, ::gai_strerror(state));
    co_await wait_for(pause);
  }
  auto endpoints = endpoints_of((*question)->request.ar_result);
  if (endpoints.empty()) co_return lookup_error(url, ErrorCode::unavailable, "no address");
  co_return endpoints;
}

}  // namespace tandem::net::fetch
