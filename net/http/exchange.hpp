// Exchange: one request and the means to answer it, as a route sees a connection. Service: what answers exchanges.
//
// A route answers exactly once: respond(), or open_stream() + send()* + close_stream(). Everything happens on the
// connection's IO thread; writes have their own deadlines. After any of the calls returned false the peer is gone and
// the rest is in vain.
#pragma once

#include "net/http/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http {

template <class T>
using Awaitable = boost::asio::awaitable<T>;

enum class Departure {
  peer_gone,        // closed or reset: nobody reads the answer; half-closed: only a stream is given up
  server_stopping,  // the stop deadline is near: say so to the client and end
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const noexcept = 0;
  virtual boost::asio::any_io_executor executor() = 0;
  // The route has read request().body: it is freed while the answer is computed.
  virtual void release_body() = 0;
  // Sends a complete answer. HEAD requests get its head only.
  virtual Awaitable<bool> respond(Response response) = 0;
  // Sends a 200 head of an event stream: chunked, or until close for HTTP/1.0.
  virtual Awaitable<bool> open_stream() = 0;
  // Sends `bytes` as one chunk. False: the peer is gone, or took nothing for `write_stall`.
  virtual Awaitable<bool> send(std::string_view bytes) = 0;
  virtual Awaitable<bool> close_stream() = 0;
  // Gives the connection up: nothing more will be said, and what was said stays incomplete.
  virtual void drop() = 0;
  // Whether a write ended because the peer took nothing for `write_stall`: it is there and does not read.
  virtual bool has_stalled() const noexcept = 0;
  // Whether an answer has begun: nothing else may be said any more than its rest.
  virtual bool has_begun() const noexcept = 0;
  // From now until the answer is complete, calls `told` on the IO thread when the peer goes or the server stops (each
  // at most once).
  virtual void watch(std::function<void(Departure)> told) = 0;
};

// What a service decides when it has seen the head only.
struct HeadVerdict {
  std::optional<Response> refusal;  // answered at once; the connection closes if a body was announced
  std::vector<Header> headers;      // added to whatever answer follows (CORS)
};

class Service {
 public:
  virtual ~Service() = default;
  // Judges a request before its body is read: route, method, key, content type.
  virtual HeadVerdict admit(const Request& request) = 0;
  // Answers a complete request. `exchange` lives until the returned awaitable is done.
  virtual Awaitable<void> serve(Exchange& exchange) = 0;
  // Builds the answer to a request that broke a limit of the transport; `id` may be new.
  virtual Response refuse(int status, std::string_view message) = 0;
};

}  // namespace tandem::net::http
