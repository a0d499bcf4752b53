// Reading in three steps (first byte, head, body), each with its own deadline and its own refusal.
#include "net/http/request_reader.hpp"

#include "net/http/request_id.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

#include <array>
#include <utility>

namespace tandem::net::http {
namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

bool is_grammar_error(const error_code& error) {
  return error.category() == beast_http::make_error_code(beast_http::error::end_of_stream).category() &&
         error != beast_http::error::end_of_stream && error != beast_http::error::partial_message;
}

constexpr std::size_t read_bytes = 16 * 1024;

ReadRefusal no_room() {
  return {503, "too many request bytes are being read at once"};
}

std::string_view as_text(const boost::beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.data().data()), buffer.size()};
}

// Some clients send a line break after a body; it belongs to no request (RFC 9112, 2.2).
void skip_empty_lines(boost::beast::flat_buffer& buffer) {
  while (buffer.size() > 0) {
    const char first = *static_cast<const char*>(buffer.data().data());
    if (first != '\r' && first != '\n') return;
    buffer.consume(1);
  }
}

}  // namespace

Awaitable<bool> RequestReader::wait_for_request() {
  parser_.reset();
  deadline_.arm(limits_.idle);
  for (;;) {
    skip_empty_lines(buffer_);
    if (buffer_.size() > 0) break;  // pipelined, or just arrived
    buffer_.shrink_to_fit();        // thousands of connections may be idle: each holds a socket and a timer, no buffer
    auto [idle_end] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, as_result);
    error_code error = idle_end;
    if (!error) {
      auto [failure, count] = co_await socket_.async_read_some(buffer_.prepare(read_bytes), as_result);
      buffer_.commit(count);
      error = failure;
    }
    if (!error) continue;
    deadline_.disarm();
    co_return false;
  }
  deadline_.disarm();
  co_return true;
}

Awaitable<std::optional<ReadRefusal>> RequestReader::read_head(Request& request) {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser_->body_limit(boost::none);  // judged by us once the head is known
  deadline_.arm(limits_.header_read);
  FoldWatch folds;
  const error_code error = co_await fill_head(folds);
  deadline_.disarm();
  if (error) co_return judge_head_error(error);
  fill(request);
  if (folds.has_fold()) co_return ReadRefusal{400, "a header line must not continue on the next one"};
  if (const auto refusal = judge_head(request)) co_return refusal;
  if (request.target.size() > limits_.target_bytes) co_return ReadRefusal{414, "the request target is too long"};
  parser_->body_limit(limits_.body_bytes);
  if (const auto length = parser_->content_length(); length && *length > limits_.body_bytes)
    co_return ReadRefusal{413, "the request body is too large"};
  if (!share_.fits(parser_->content_length().value_or(0))) co_return no_room();
  co_return std::nullopt;
}

// Beast's own loop for heads would do, but for the raw bytes: folded lines can only be seen before they are parsed.
Awaitable<error_code> RequestReader::fill_head(FoldWatch& folds) {
  folds.see(as_text(buffer_));
  for (std::size_t head_bytes = 0;;) {
    error_code error;
    const std::size_t parsed = parser_->put(buffer_.data(), error);
    buffer_.consume(parsed);
    head_bytes += parsed;
    const bool is_done = parser_->is_header_done();
    // The parser's own limit looks at one piece of the head at a time.
    if (head_bytes + (is_done ? 0 : buffer_.size()) > limits_.header_bytes) co_return beast_http::error::header_limit;
    if (is_done) co_return error_code{};
    if (error && error != beast_http::error::need_more) co_return error;
    const std::size_t room = boost::beast::read_size(buffer_, read_bytes);
    if (room == 0) co_return beast_http::error::buffer_overflow;
    auto [failure, count] = co_await socket_.async_read_some(buffer_.prepare(room), as_result);
    buffer_.commit(count);
    if (failure) co_return failure;
    folds.see(as_text(buffer_).substr(buffer_.size() - count));
  }
}

std::optional<ReadRefusal> RequestReader::judge_head_error(const error_code& error) const {
  if (deadline_.has_passed()) return ReadRefusal{408, "the request header did not arrive in time"};
  if (error == beast_http::error::header_limit || error == beast_http::error::buffer_overflow) {
    // A request line that has no end within the limit is a target without an end.
    const bool is_line_complete = !parser_->get().target().empty();
    return is_line_complete ? ReadRefusal{431, "the request header is too large"}
                            : ReadRefusal{414, "the request target is too long"};
  }
  if (is_grammar_error(error)) return ReadRefusal{400, "the request is not valid HTTP"};
  return ReadRefusal{};
}

void RequestReader::fill(Request& request) const {
  const auto& head = parser_->get();
  request.method = std::string(head.method_string());
  request.target = std::string(head.target());
  request.path = decode_path(request.target);
  request.is_http_1_0 = head.version() < 11;
  request.has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
  for (const auto& field : head)
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  const std::string* given = request.find_header("x-request-id");
  request.id = given != nullptr && is_valid_request_id(*given) ? *given : new_request_id();
}

Awaitable<std::optional<ReadRefusal>> RequestReader::read_body(Request& request) {
  if (const std::string* expect = request.find_header("expect"); expect != nullptr && !request.is_http_1_0) {
    if (!equal_ignoring_case(*expect, "100-continue")) co_return ReadRefusal{417, "only 100-continue can be expected"};
    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    deadline_.arm(limits_.write_stall);
    auto [error, count] = co_await asio::async_write(socket_, asio::buffer(go_on), as_result);
    deadline_.disarm();
    if (error) co_return ReadRefusal{};
  }
  while (!parser_->is_done()) {
    deadline_.arm(limits_.body_stall);
    auto [error, count] = co_await beast_http::async_read_some(socket_, buffer_, *parser_, as_result);
    deadline_.disarm();
    if (!share_.resize(parser_->get().body().size())) {
      // Given back before the refusal is said, so that those who wait beside it can go on.
      std::string{}.swap(parser_->get().body());
      share_.release();
      co_return no_room();
    }
    if (!error) continue;
    if (deadline_.has_passed()) co_return ReadRefusal{408, "the request body did not arrive in time"};
    if (error == beast_http::error::body_limit) co_return ReadRefusal{413, "the request body is too large"};
    if (is_grammar_error(error)) co_return ReadRefusal{400, "the request body is not framed as HTTP says"};
    co_return ReadRefusal{};
  }
  request.body = std::move(parser_->get().body());
  co_return std::nullopt;
}

Awaitable<void> RequestReader::discard_rest() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::array<char, 16 * 1024> sink;
  deadline_.arm(limits_.linger);
  for (;;) {
    auto [error, count] = co_await socket_.async_read_some(asio::buffer(sink), as_result);
    if (error) break;
  }
  deadline_.disarm();
}

}  // namespace tandem::net::http
