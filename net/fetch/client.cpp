// Connection reuse, redirections, and where the token may go.
#include "net/fetch/client.hpp"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>

namespace tandem::net::fetch {
namespace {

namespace ssl = boost::asio::ssl;

std::string origin_of(const Url& url) {
  return (url.is_tls ? "https://" : "http://") + url.host_field();
}

bool is_redirection(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_this_machine(const Url& url) {
  if (url.host == "localhost") return true;
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(url.host, failed);
  return !failed && address.is_loopback();
}

Reply make_reply(ReplyHead head, Url url, std::unique_ptr<Connection> connection) {
  return {std::move(head), std::move(url), {}, std::move(connection)};
}

}  // namespace

struct Client::Trust {
  ssl::context context{ssl::context::tls_client};
};

std::string Reply::first_field(std::string_view name) const {
  for (const auto& fields : passed) {
    const ReplyHead head{0, {}, fields};
    if (auto value = head.field(name); !value.empty()) return value;
  }
  return head.field(name);
}

Client::Client(FetchLimits limits, std::string token, Url first, std::unique_ptr<Trust> trust)
    : limits_(limits), token_(std::move(token)), token_origin_(std::move(first)), trust_(std::move(trust)) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::create(const Url& first, const FetchLimits& limits, const FetchAccess& access) {
  if (!access.token.empty() && !first.is_tls && !is_this_machine(first)) {
    return Error{ErrorCode::bad_config, first.text_without_query(), "a token for an unencrypted connection", "https"};
  }
  auto trust = std::make_unique<Trust>();
  boost::system::error_code error;
  trust->context.set_options(ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  trust->context.set_verify_mode(ssl::verify_peer, error);
  if (access.ca_file.empty()) {
    trust->context.set_default_verify_paths(error);
  } else {
    trust->context.load_verify_file(access.ca_file.string(), error);
  }
  if (error) {
    const auto where = access.ca_file.empty() ? "the system's certificates" : access.ca_file.string();
    return Error{ErrorCode::bad_config, where, error.message(), "certificates in PEM form"};
  }
  return std::unique_ptr<Client>(new Client(limits, access.token, first, std::move(trust)));
}

std::unique_ptr<Connection> Client::take_idle(const Url& url) {
  const auto at = idle_.find(origin_of(url));
  if (at == idle_.end() || at->second.empty()) return nullptr;
  auto connection = std::move(at->second.back());
  at->second.pop_back();
  return connection;
}

void Client::give_back(Reply reply) {
  if (!reply.connection || !reply.connection->is_reusable()) return;
  auto& kept = idle_[origin_of(reply.url)];
  if (kept.size() < static_cast<std::size_t>(limits_.connections)) kept.push_back(std::move(reply.connection));
}

void Client::drop_idle() {
  idle_.clear();
}

RequestHead Client::head_of(const Request& request) const {
  RequestHead head{request.is_head, request.url.target, {}};
  head.fields = {{"User-Agent", "tandem-fetch"}, {"Accept", "*/*"}, {"Accept-Encoding", "identity"}};
  if (request.range) {
    head.fields.emplace_back("Range", fmt::format("bytes={}-{}", request.range->first, request.range->last));
    if (!request.if_range.empty()) head.fields.emplace_back("If-Range", request.if_range);
  }
  if (!token_.empty() && request.url.has_origin_of(token_origin_))
    head.fields.emplace_back("Authorization", "Bearer " + token_);
  return head;
}

Awaitable<Result<Reply>> Client::ask_once(const Request& request) {
  const RequestHead head = head_of(request);
  // The server may have closed a kept connection meanwhile: that is no failed attempt.
  while (auto kept = take_idle(request.url)) {
    auto answer = co_await kept->ask(head);
    if (answer) co_return make_reply(std::move(*answer), request.url, std::move(kept));
    if (answer.error().code != ErrorCode::unavailable) co_return answer.error();
  }
  auto opened = co_await Connection::open(request.url, limits_, trust_->context);
  if (!opened) co_return opened.error();
  auto answer = co_await (*opened)->ask(head);
  if (!answer) co_return answer.error();
  co_return make_reply(std::move(*answer), request.url, std::move(*opened));
}

Result<Url> Client::redirected(const Url& from, const ReplyHead& head) const {
  auto to = from.follow(head.field("Location"));
  if (!to) return to;
  if (from.is_tls && !to->is_tls) {
    return Error{ErrorCode::mismatch, from.text_without_query(),
                 fmt::format("a redirection to {}", to->text_without_query()), "https after https"};
  }
  return to;
}

Awaitable<Result<Reply>> Client::ask(Request request) {
  std::vector<boost::beast::http::fields> passed;
  const std::string asked = request.url.text_without_query();
  for (int hops = 0;; ++hops) {
    auto reply = co_await ask_once(request);
    if (!reply) co_return reply.error();
    if (!is_redirection(reply->head.status)) {
      reply->passed = std::move(passed);
      co_return reply;
    }
    if (hops == limits_.redirects) {
      const Error circle{ErrorCode::mismatch, asked, fmt::format("more than {} redirections", limits_.redirects), ""};
      co_return circle;
    }
    auto target = redirected(request.url, reply->head);
    if (!target) co_return target.error();
    passed.push_back(reply->head.fields);
    give_back(std::move(*reply));
    request.url = std::move(*target);
  }
}

}  // namespace tandem::net::fetch
