// Listener: the listening socket, the IO threads and the orderly end of both.
//
// One io_context a thread, connections are dealt out in turn and stay where they are. stop() accounts for every
// connection before it returns; nothing of the service is called afterwards.
#pragma once

#include "engram/error.hpp"
#include "net/http/exchange.hpp"
#include "net/http/limits.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace tandem::net::http {

struct ListenAddress {
  std::string host = "127.0.0.1";  // a numeric address, or "localhost"
  std::uint16_t port = 8000;       // 0: any free one
};

class Listener {
 public:
  // `service` must outlive the listener.
  Listener(Service& service, Limits limits, int io_threads);
  ~Listener();  // stops at once
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Binds and starts serving; returns the port. Errors: bad_config (not an address), unavailable (port taken), io.
  Result<std::uint16_t> start(const ListenAddress& address);
  // Stops accepting and closes idle connections; answers in progress get until `patience` has passed, then are told to
  // hurry, then cut. Returns the number of connections that were cut. Later calls do nothing and return 0.
  std::size_t stop(std::chrono::milliseconds patience);
  std::size_t connections() const;
  // The configured bound, or what the descriptor limit allows.
  std::size_t connections_max() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::net::http
