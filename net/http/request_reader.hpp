// RequestReader: takes requests off a socket under limits and deadlines. Knows HTTP's grammar (through Beast), no
// routes.
#pragma once

#include "net/http/body_budget.hpp"
#include "net/http/deadline.hpp"
#include "net/http/exchange.hpp"
#include "net/http/head_rules.hpp"
#include "net/http/limits.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <optional>

namespace tandem::net::http {

class RequestReader {
 public:
  RequestReader(boost::asio::ip::tcp::socket& socket, Deadline& deadline, const Limits& limits, BodyBudget& bodies)
      : socket_(socket),
        deadline_(deadline),
        limits_(limits),
        share_(bodies),
        buffer_(limits.header_bytes + 16 * 1024) {}

  // Waits for the next request's first byte. False: the peer closed, the idle time passed or the wait was cancelled.
  Awaitable<bool> wait_for_request();
  // Reads a head into `request` (everything but the body).
  Awaitable<std::optional<ReadRefusal>> read_head(Request& request);
  // Reads the body of that head; answers "Expect: 100-continue" first.
  Awaitable<std::optional<ReadRefusal>> read_body(Request& request);
  // The body that was read is no longer needed: its part of the budget is free again.
  void release_body() { share_.release(); }
  // Reads and discards for a moment, so that the peer gets to read an early answer before the reset.
  Awaitable<void> discard_rest();

  // Whether the connection may carry another request after this one.
  bool keep_alive() const { return parser_ && parser_->get().keep_alive(); }

 private:
  Awaitable<boost::system::error_code> fill_head(FoldWatch& folds);
  std::optional<ReadRefusal> judge_head_error(const boost::system::error_code& error) const;
  void fill(Request& request) const;

  boost::asio::ip::tcp::socket& socket_;
  Deadline& deadline_;
  const Limits& limits_;
  BodyShare share_;
  // Larger than a head, so that the header limit is what refuses one; below 64 KiB by default, since a trailer field
  // longer than that makes Beast throw.
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
};

}  // namespace tandem::net::http
