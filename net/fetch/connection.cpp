// Beast over a plain or an encrypted stream; the one difference between both is how they are opened.
#include "net/fetch/connection.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "net/fetch/name_lookup.hpp"

namespace tandem::net::fetch {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// Signed addresses in a Location field reach several KiB.
constexpr std::uint32_t header_bytes_max = 64 << 10;
// Beast reads as much as the buffer has room for, at most this, and a new buffer has hardly any.
constexpr std::size_t read_bytes = 64 << 10;

Error transport_error(const Url& url, const char* step, const error_code& error) {
  const bool is_timeout = error == beast::error::timeout;
  return {is_timeout ? ErrorCode::timeout : ErrorCode::unavailable, url.host_field(),
          fmt::format("{}: {}", step, is_timeout ? "no answer within the limit" : error.message()), ""};
}

// A failed handshake, final if it is the certificate that is refused.
Error handshake_error(const Url& url, SSL* session, const error_code& error) {
  const long verdict = SSL_get_verify_result(session);
  if (verdict == X509_V_OK) return transport_error(url, "TLS handshake", error);
  return {ErrorCode::mismatch, url.host_field(),
          fmt::format("its certificate is refused: {}", X509_verify_cert_error_string(verdict)),
          "a trusted certificate of this host (--ca-file FILE names further authorities)"};
}

// The certificate must be this host's, and a server of many hosts is told which one is meant.
Result<void> expect_host(SSL* session, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1) return {};
  if (SSL_set1_host(session, host.c_str()) == 1 && SSL_set_tlsext_host_name(session, host.c_str()) == 1) return {};
  return Error{ErrorCode::bad_config, host, "no name that TLS can carry", "a host name"};
}

template <class Stream>
class StreamConnection final : public Connection {
 public:
  StreamConnection(Stream stream, const Url& url, const FetchLimits& limits)
      : stream_(std::move(stream)), url_(url), limits_(limits) {
    buffer_.reserve(read_bytes);
  }

  Awaitable<Result<ReplyHead>> ask(const RequestHead& request) override {
    is_reusable_ = false;
    http::request<http::empty_body> message(request.is_head ? http::verb::head : http::verb::get, request.target, 11);
    message.set(http::field::host, url_.host_field());
    for (const auto& [name, value] : request.fields) message.set(name, value);
    expire();
    if (auto [error, bytes] = co_await http::async_write(stream_, message, as_values); error)
      co_return transport_error(url_, "sending the request", error);
    co_return co_await read_head(request.is_head);
  }

  Awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) override {
    auto& body = parser_->get().body();
    body.data = out.data();
    body.size = out.size();
    body.more = true;
    expire();  // once: the frames between bytes are no progress
    while (body.size == out.size() && !parser_->is_done()) {
      auto [error, bytes] = co_await http::async_read_some(stream_, buffer_, *parser_, as_values);
      if (error && error != http::error::need_buffer) co_return transport_error(url_, "reading the answer", error);
    }
    note_end();
    co_return out.size() - body.size;
  }

  bool is_reusable() const noexcept override { return is_reusable_; }

 private:
  void expire() { beast::get_lowest_layer(stream_).expires_after(limits_.read); }

  Awaitable<Result<ReplyHead>> read_head(bool is_head) {
    // Interim answers (100, 103) come before the real one.
    for (int interim = 0; interim < 8; ++interim) {
      parser_.emplace();
      parser_->header_limit(header_bytes_max);
      parser_->body_limit(boost::none);  // what is too much is the reader's to judge
      parser_->skip(is_head);
      expire();
      auto [error, bytes] = co_await http::async_read_header(stream_, buffer_, *parser_, as_values);
      if (error) co_return transport_error(url_, "waiting for an answer", error);
      if (parser_->get().result_int() >= 200) {
        note_end();
        co_return head();
      }
    }
    const Error endless{ErrorCode::unavailable, url_.host_field(), "interim answers without end", "an answer"};
    co_return endless;
  }

  ReplyHead head() const {
    ReplyHead reply;
    reply.status = static_cast<int>(parser_->get().result_int());
    if (const auto length = parser_->content_length()) reply.content_length = *length;
    reply.fields = parser_->get().base();
    return reply;
  }

  // Bytes behind the answer would be taken for the next one: such a connection is not used again.
  void note_end() {
    is_reusable_ = parser_->is_done() && parser_->keep_alive() && !parser_->need_eof() && buffer_.size() == 0;
  }

  Stream stream_;
  Url url_;
  FetchLimits limits_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  bool is_reusable_ = false;
};

Awaitable<Result<void>> connect(beast::tcp_stream& stream, const Url& url, const FetchLimits& limits) {
  const auto endpoints = co_await look_up(url, limits.connect);
  if (!endpoints) co_return endpoints.error();
  stream.expires_after(limits.connect);
  auto [error, endpoint] = co_await stream.async_connect(*endpoints, as_values);
  if (error) co_return transport_error(url, "connecting", error);
  error_code ignored;
  stream.socket().set_option(tcp::no_delay(true), ignored);
  co_return Result<void>{};
}

}  // namespace

std::string ReplyHead::field(std::string_view name) const {
  const auto at = fields.find(boost::beast::string_view(name.data(), name.size()));
  return at == fields.end() ? std::string() : std::string(at->value().data(), at->value().size());
}

Awaitable<Result<std::unique_ptr<Connection>>> Connection::open(const Url& url, const FetchLimits& limits,
                                                                asio::ssl::context& tls) {
  beast::tcp_stream plain(co_await asio::this_coro::executor);
  if (auto connected = co_await connect(plain, url, limits); !connected) co_return connected.error();
  if (!url.is_tls) co_return std::make_unique<StreamConnection<beast::tcp_stream>>(std::move(plain), url, limits);
  beast::ssl_stream<beast::tcp_stream> stream(std::move(plain), tls);
  SSL* session = stream.native_handle();
  if (auto expected = expect_host(session, url.host); !expected) co_return expected.error();
  beast::get_lowest_layer(stream).expires_after(limits.connect);
  if (auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, as_values); error)
    co_return handshake_error(url, session, error);
  co_return std::make_unique<StreamConnection<beast::ssl_stream<beast::tcp_stream>>>(std::move(stream), url, limits);
}

bool is_transient(const Error& error) noexcept {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout;
}

}  // namespace tandem::net::fetch
